//! Reports of other tools come in beside the queue: they were measured elsewhere.

use super::launch::LaunchError;
use super::texts::{check_note, check_tags};
use super::{Supervisor, now};
use crate::measure::import::Import;
use crate::measure::run::Run;
use crate::store::Importer;

impl Supervisor {
    /// Keeps reports as imported runs, all or none, in the order given.
    ///
    /// # Errors
    /// When note or tags are not ones, the disk is nearly full, or they could not be stored.
    pub async fn import(
        &self,
        imports: Vec<Import>,
        by: Importer,
    ) -> Result<Vec<Run>, LaunchError> {
        let mut errors = check_note(&by.note);
        errors.extend(check_tags(&by.tags));
        if !errors.is_empty() {
            return Err(LaunchError::Invalid(errors));
        }
        self.core.check_disk()?;
        let by = Importer {
            node: self.core.settings.node.clone(),
            ..by
        };
        let ids = self.core.store.import_runs(imports, by, now()).await?;
        let mut runs = Vec::with_capacity(ids.len());
        for id in ids {
            runs.extend(self.core.store.run(id).await?);
        }
        Ok(runs)
    }
}
