//! Where a test goes: each host is looked up once, and what no test is ever sent to is refused.

use super::Refused;
use crate::guard::target::TargetRule;
use crate::measure::plan::{Endpoint, Plan};
use crate::supervisor::{Instrument, Pinned, look_up};

/// One address for each endpoint of the plan, in its order.
pub(super) async fn pin(instrument: &dyn Instrument, plan: &Plan) -> Result<Vec<Pinned>, Refused> {
    let rule = TargetRule::default();
    let mut found: Vec<(Endpoint, Pinned)> = Vec::new();
    let mut targets = Vec::new();
    for endpoint in plan.endpoints() {
        if let Some((_, pinned)) = found.iter().find(|(known, _)| *known == endpoint) {
            targets.push(pinned.clone());
            continue;
        }
        rule.check_host(&endpoint.host)
            .map_err(|refusal| Refused::usage(refusal.sentence))?;
        let (all, lookup) = look_up(instrument, plan, &endpoint)
            .await
            .map_err(Refused::nothing)?;
        for address in &all {
            TargetRule::check_always(address.ip())
                .map_err(|refusal| Refused::nothing(refusal.sentence))?;
        }
        let Some(address) = all.first().copied() else {
            return Err(Refused::nothing(format!(
                "{} has no address.",
                endpoint.host
            )));
        };
        let pinned = Pinned {
            address,
            all,
            lookup,
            egress_cap: None,
        };
        targets.push(pinned.clone());
        found.push((endpoint, pinned));
    }
    Ok(targets)
}
