//! From a run and one of its causes to the experiment that puts the cause to the proof.

use serde_json::{Map, Value};

use super::super::Supervisor;
use crate::measure::experiment::{Question, question};
use crate::net::environment::congestion_controls;
use crate::store::StoreError;

/// Why there is no such experiment.
#[derive(Debug)]
pub enum NoProof {
    /// The field, and a sentence.
    Asked(&'static str, String),
    /// The notebook could not be read.
    Storage(StoreError),
}

impl Supervisor {
    /// What [`Spec::from_json`](crate::measure::experiment::Spec::from_json) takes for this question.
    ///
    /// # Errors
    /// When there is no such run, it does not name that cause, or nothing would prove it.
    pub async fn proof_of(&self, asked: &Question) -> Result<Map<String, Value>, NoProof> {
        let run = self.run(asked.run).await.map_err(NoProof::Storage)?;
        let Some(run) = run else {
            return Err(NoProof::Asked(
                "prove.run",
                format!("There is no run {} in this notebook.", asked.run),
            ));
        };
        let controls = congestion_controls();
        match question(&run, &asked.cause, &controls) {
            Ok(Value::Object(object)) => Ok(object),
            Ok(_) => Ok(Map::new()),
            Err(sentence) => Err(NoProof::Asked("prove.cause", sentence)),
        }
    }
}
