//! The fields of the commands: what they may hold, and what is said where they hold something else.

use std::collections::BTreeMap;
use std::net::IpAddr;

use super::{LONGEST_NAME, Lab, Wanted};

impl Wanted {
    /// Reads the form's values.
    ///
    /// # Errors
    /// Every field that cannot be used, with a sentence.
    #[expect(clippy::too_many_lines, reason = "a field after the other")]
    pub fn read(values: &BTreeMap<String, String>) -> Result<Self, Vec<(String, String)>> {
        let mut faults = Vec::new();
        let text = |name: &str| values.get(name).map_or("", |value| value.trim()).to_owned();
        let mut fault = |name: &str, sentence: String| faults.push((name.to_owned(), sentence));
        let lab = Lab::from_word(&text("lab"));
        if lab.is_none() {
            fault("lab", "Choose balanced or peers.".to_owned());
        }
        let (prefix, project, zone) = (text("prefix"), text("project"), text("zone"));
        if let Some(sentence) = bad_name(&prefix) {
            fault("prefix", sentence);
        }
        if !project.is_empty() && !is_project(&project) {
            fault(
                "project",
                "A project's ID has 6 to 30 lower-case letters, digits and hyphens and begins with a letter; leave it empty to take gcloud's own.".to_owned(),
            );
        }
        if !is_zone(&zone) {
            fault(
                "zone",
                "Write a zone such as europe-west1-b: a region, a hyphen, one letter.".to_owned(),
            );
        }
        let regions: Vec<String> = text("regions")
            .split([' ', ',', ';'])
            .filter(|word| !word.is_empty())
            .map(str::to_owned)
            .collect();
        if lab == Some(Lab::Balanced)
            && let Some(sentence) = bad_regions(&regions)
        {
            fault("regions", sentence);
        }
        let machine_type = text("machine_type");
        if !is_label(&machine_type) {
            fault(
                "machine_type",
                "Write a machine type such as e2-standard-2.".to_owned(),
            );
        }
        let mut number = |name: &str, least: u32, most: u32| {
            let value = text(name).parse::<u32>().ok();
            let value = value.filter(|value| (least..=most).contains(value));
            if value.is_none() {
                faults.push((
                    name.to_owned(),
                    format!("Write a whole number from {least} to {most}."),
                ));
            }
            value.unwrap_or(least)
        };
        let machines = match lab {
            Some(Lab::Peers) => number("machines", 2, 50),
            _ => number("machines", 1, 100),
        };
        let mtu = match lab {
            Some(Lab::Peers) => number("mtu", 1300, 8896),
            _ => 1460,
        };
        let max_rate = text("max_rate").parse::<f64>().ok();
        let max_rate = max_rate.filter(|rate| rate.is_finite() && (0.1..=100_000.0).contains(rate));
        if lab == Some(Lab::Balanced) && max_rate.is_none() {
            faults.push((
                "max_rate".to_owned(),
                "Write the requests a second that one instance holds, from 0.1 to 100000; a capacity search finds it.".to_owned(),
            ));
        }
        let from = text("from");
        if let Some(sentence) = bad_source(&from) {
            faults.push(("from".to_owned(), sentence));
        }
        let binary = text("binary");
        if !is_address_of_file(&binary) {
            faults.push((
                "binary".to_owned(),
                "Write the https address of the binary, without spaces, commas and quotes."
                    .to_owned(),
            ));
        }
        let tier_1 = text("tier_1") == "on";
        let wanted = Self {
            lab: lab.unwrap_or(Lab::Balanced),
            prefix,
            project: Some(project).filter(|project| !project.is_empty()),
            zone,
            regions,
            machine_type,
            machines,
            max_rate: max_rate.unwrap_or(1.0),
            mtu,
            tier_1,
            from,
            binary,
        };
        if faults.is_empty()
            && let Some(longest) = wanted.steps().iter().map(|step| step.name.len()).max()
            && longest > LONGEST_NAME
        {
            let left = LONGEST_NAME.saturating_sub(longest - wanted.prefix.len());
            faults.push((
                "prefix".to_owned(),
                format!(
                    "With this prefix a name would have {longest} characters, and {LONGEST_NAME} is the most: shorten it to {left}."
                ),
            ));
        }
        if faults.is_empty() {
            Ok(wanted)
        } else {
            Err(faults)
        }
    }
}

fn is_label(text: &str) -> bool {
    let letters = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    (1..=LONGEST_NAME).contains(&text.len())
        && text.starts_with(|c: char| c.is_ascii_lowercase())
        && !text.ends_with('-')
        && text.chars().all(letters)
}

fn bad_name(prefix: &str) -> Option<String> {
    (!is_label(prefix)).then(|| {
        "Use lower-case letters, digits and hyphens; begin with a letter and end without a hyphen, as names in the cloud do.".to_owned()
    })
}

fn is_project(text: &str) -> bool {
    (6..=30).contains(&text.len()) && is_label(text)
}

fn is_region(text: &str) -> bool {
    is_label(text) && text.contains('-') && text.ends_with(|c: char| c.is_ascii_digit())
}

fn is_zone(text: &str) -> bool {
    text.rsplit_once('-').is_some_and(|(region, letter)| {
        is_region(region)
            && letter.len() == 1
            && letter.starts_with(|c: char| c.is_ascii_lowercase())
    })
}

fn bad_regions(regions: &[String]) -> Option<String> {
    if regions.is_empty() || regions.len() > 8 {
        return Some("Name 1 to 8 regions, such as europe-west1 us-central1.".to_owned());
    }
    if let Some(odd) = regions.iter().find(|region| !is_region(region)) {
        let shown: String = odd.chars().take(40).collect();
        return Some(format!(
            "{shown:?} is no region: write one such as europe-west1, without its zone."
        ));
    }
    let twice = |region: &&String| regions.iter().filter(|other| other == region).count() > 1;
    let twice = regions.iter().find(twice)?;
    Some(format!("{twice} stands twice: each region gets one group."))
}

/// Why a range of addresses cannot be let in.
fn bad_source(text: &str) -> Option<String> {
    let sentence = "Write the addresses that may log in, such as 203.0.113.7/32.".to_owned();
    let Some((address, bits)) = text.split_once('/') else {
        return Some(sentence);
    };
    let (Ok(address), Ok(bits)) = (address.parse::<IpAddr>(), bits.parse::<u8>()) else {
        return Some(sentence);
    };
    let most = if address.is_ipv4() { 32 } else { 128 };
    if bits > most || bits.to_string().len() != text.len() - text.find('/')? - 1 {
        return Some(sentence);
    }
    (bits < 8).then(|| {
        "This lets in a large part of the world: name a range of /8 or smaller, best your own address with /32.".to_owned()
    })
}

fn is_address_of_file(text: &str) -> bool {
    let odd = |c: char| !(c.is_ascii_alphanumeric() || "-._~:/?=%+@&".contains(c));
    text.len() <= 500
        && text.strip_prefix("https://").is_some_and(|rest| !rest.is_empty())
        // A shell reads & and ? unless they are quoted; the file of a bucket needs neither.
        && !text.contains(odd)
        && !text.contains(['&', '?'])
}
