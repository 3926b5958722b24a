//! The commands for Google Cloud that make a lab and those that remove it, from a few fields; text alone, nothing is sent.

mod fields;

use std::fmt::Write as _;

use crate::measure::units::significant;

/// The longest name that a resource may have.
const LONGEST_NAME: usize = 63;
/// Where the health checks and the load balancer's own requests come from.
const PROBES: &str = "130.211.0.0/22,35.191.0.0/16";
/// The workload's port, as `deploy/gcloud/startup.sh` opens it.
const WORKLOAD_PORT: u16 = 8000;
/// Addresses of the subnets that a network of mode `auto` makes.
const INSIDE: &str = "10.128.0.0/9";
/// What the startup script is told where the machine serves pictures.
const SERVES: &str = "tidemark-role=workload";
/// What it is told where it measures, and is measured against.
const MEASURES: &str = "tidemark-role=throughput";
/// The startup script of this project, from its folder.
const STARTUP: &str = "deploy/gcloud/startup.sh";

/// Which machines are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lab {
    /// Groups of web servers behind a load balancer, and a machine that measures them.
    Balanced,
    /// Machines that measure throughput between each other.
    Peers,
}

impl Lab {
    /// The word in forms.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Balanced => "balanced",
            Self::Peers => "peers",
        }
    }

    fn from_word(word: &str) -> Option<Self> {
        [Self::Balanced, Self::Peers]
            .into_iter()
            .find(|one| one.word() == word)
    }
}

/// What the form asks for; a value that exists is valid.
#[derive(Clone, Debug, PartialEq)]
pub struct Wanted {
    lab: Lab,
    prefix: String,
    project: Option<String>,
    zone: String,
    regions: Vec<String>,
    machine_type: String,
    machines: u32,
    max_rate: f64,
    mtu: u32,
    tier_1: bool,
    from: String,
    binary: String,
}

/// Where a resource lives, as its commands say it.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Scope {
    /// Its commands take no such flag.
    Project,
    Global,
    Region(String),
    Zone(String),
}

impl Scope {
    fn flag(&self) -> Option<String> {
        match self {
            Self::Project => None,
            Self::Global => Some("--global".to_owned()),
            Self::Region(region) => Some(format!("--region={region}")),
            Self::Zone(zone) => Some(format!("--zone={zone}")),
        }
    }
}

/// One step: what it is for, the command, and what removes what it makes.
struct Step {
    why: &'static str,
    /// A line of the shell that it needs before it.
    before: Option<String>,
    /// The words after `gcloud compute`.
    words: String,
    /// The words after `gcloud compute` that remove it again; `None` where another step's removal does.
    removed_by: Option<String>,
    name: String,
    scope: Scope,
    flags: Vec<String>,
}

/// Both lists as text for a shell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Commands {
    /// Makes everything.
    pub create: String,
    /// Removes everything, in the opposite order.
    pub delete: String,
    /// How many resources there are.
    pub resources: usize,
}

impl Wanted {
    /// Both lists.
    pub fn commands(&self) -> Commands {
        let steps = self.steps();
        let mut create = String::new();
        line(
            &mut create,
            "# Makes the lab. Run it in the folder of this project, whose binary is built (cargo build --release).",
        );
        line(&mut create, "set -eu");
        line(
            &mut create,
            "# The machines fetch this binary, and start it only if its SHA-256 is this one.",
        );
        line(
            &mut create,
            "SUM=$(sha256sum target/release/tidemark | cut -d ' ' -f 1)",
        );
        for step in &steps {
            line(&mut create, "");
            line(&mut create, &format!("# {}", step.why));
            if let Some(before) = &step.before {
                line(&mut create, before);
            }
            let mut words = vec![format!("gcloud compute {} {}", step.words, step.name)];
            words.extend(step.scope.flag());
            words.extend(self.project_flag());
            words.extend(step.flags.iter().cloned());
            line(&mut create, &broken(&words));
        }
        line(&mut create, "");
        for remark in self.remarks() {
            line(&mut create, &format!("# {remark}"));
        }
        let mut delete = String::new();
        line(
            &mut delete,
            "# Removes what the other list made, in the opposite order. A line whose resource is gone already fails, and the next one goes on.",
        );
        let mut resources = 0;
        for step in steps.iter().rev() {
            let Some(words) = &step.removed_by else {
                continue;
            };
            resources += 1;
            let mut words = vec![format!("gcloud compute {words} {}", step.name)];
            words.extend(step.scope.flag());
            words.extend(self.project_flag());
            words.push("--quiet".to_owned());
            line(&mut delete, &words.join(" "));
        }
        line(
            &mut delete,
            "# Nothing of the lab is left when this prints no line:",
        );
        let project = self.project_words();
        line(
            &mut delete,
            &format!(
                "gcloud compute instances list{project} --filter='name~^{}-' --format='value(name)'",
                self.prefix
            ),
        );
        Commands {
            create,
            delete,
            resources,
        }
    }

    fn project_flag(&self) -> Option<String> {
        self.project
            .as_ref()
            .map(|project| format!("--project={project}"))
    }

    /// The same with a space before it; empty where gcloud's own project is meant.
    fn project_words(&self) -> String {
        self.project_flag()
            .map_or_else(String::new, |flag| format!(" {flag}"))
    }

    fn steps(&self) -> Vec<Step> {
        let mut steps = vec![
            self.step(
                "A network of its own, so that the rules below concern nothing else.",
                "networks",
                "net",
                Scope::Project,
                vec![
                    "--subnet-mode=auto".to_owned(),
                    format!("--mtu={}", self.mtu),
                ],
            ),
            self.rule(
                "Who may log in; the dashboard is reached through it.",
                "allow-ssh",
                "tcp:22",
                &self.from,
                "",
            ),
        ];
        match self.lab {
            Lab::Balanced => self.balanced(&mut steps),
            Lab::Peers => self.peers(&mut steps),
        }
        steps
    }

    fn balanced(&self, steps: &mut Vec<Step>) {
        let global = || Scope::Global;
        steps.push(self.rule(
            "The load balancer and its health checks reach the servers.",
            "allow-check",
            &format!("tcp:{WORKLOAD_PORT}"),
            PROBES,
            "web",
        ));
        steps.push(self.rule(
            "The measuring machine reaches each server alone too, to search its capacity.",
            "allow-web",
            &format!("tcp:{WORKLOAD_PORT}"),
            INSIDE,
            "web",
        ));
        let mut flags = self.machine("web");
        flags.push(self.startup(SERVES));
        steps.push(self.step(
            "What each server is.",
            "instance-templates",
            "web",
            Scope::Project,
            flags,
        ));
        steps.push(Step {
            words: "health-checks create http".to_owned(),
            ..self.step(
                "Asks outside the queue of work: a full server is not a dead one.",
                "health-checks",
                "check",
                global(),
                [
                    format!("--port={WORKLOAD_PORT}").as_str(),
                    "--request-path=/health-check",
                    "--check-interval=5s",
                    "--timeout=5s",
                    "--healthy-threshold=2",
                    "--unhealthy-threshold=3",
                ]
                .map(str::to_owned)
                .into(),
            )
        });
        self.groups(steps);
        self.front(steps);
        let mut flags = self.machine("load");
        flags.push(self.startup(MEASURES));
        steps.push(self.step(
            "The machine that measures, with the dashboard.",
            "instances",
            "load",
            Scope::Zone(self.zone.clone()),
            flags,
        ));
    }

    fn groups(&self, steps: &mut Vec<Step>) {
        for region in &self.regions {
            let scope = || Scope::Region(region.clone());
            let group = format!("group-{region}");
            steps.push(self.step(
                "The servers of a region; a new one has a minute before it is judged.",
                "instance-groups managed",
                &group,
                scope(),
                vec![
                    format!("--template={}", self.name("web")),
                    format!("--size={}", self.machines),
                    format!("--health-check={}", self.name("check")),
                    "--initial-delay=60".to_owned(),
                ],
            ));
            steps.push(Step {
                words: "instance-groups managed set-named-ports".to_owned(),
                removed_by: None,
                ..self.step(
                    "Where they listen.",
                    "",
                    &group,
                    scope(),
                    vec![format!("--named-ports=http:{WORKLOAD_PORT}")],
                )
            });
        }
    }

    fn front(&self, steps: &mut Vec<Step>) {
        let global = || Scope::Global;
        steps.push(self.step(
            "The service in front of all groups.",
            "backend-services",
            "backend",
            global(),
            vec![
                "--load-balancing-scheme=EXTERNAL_MANAGED".to_owned(),
                "--protocol=HTTP".to_owned(),
                "--port-name=http".to_owned(),
                format!("--health-checks={}", self.name("check")),
                "--global-health-checks".to_owned(),
            ],
        ));
        for region in &self.regions {
            steps.push(Step {
                words: "backend-services add-backend".to_owned(),
                removed_by: None,
                ..self.step(
                    "A region gets so many requests a second for each instance; what is above goes to the next one.",
                    "",
                    "backend",
                    global(),
                    vec![
                        format!("--instance-group={}", self.name(&format!("group-{region}"))),
                        format!("--instance-group-region={region}"),
                        "--balancing-mode=RATE".to_owned(),
                        format!("--max-rate-per-instance={}", self.max_rate),
                    ],
                )
            });
        }
        steps.push(self.step(
            "Every address leads to that service.",
            "url-maps",
            "map",
            global(),
            vec![format!("--default-service={}", self.name("backend"))],
        ));
        steps.push(self.step(
            "Plain HTTP.",
            "target-http-proxies",
            "proxy",
            global(),
            vec![format!("--url-map={}", self.name("map"))],
        ));
        steps.push(self.step(
            "The address to measure.",
            "forwarding-rules",
            "front",
            global(),
            vec![
                "--load-balancing-scheme=EXTERNAL_MANAGED".to_owned(),
                format!("--target-http-proxy={}", self.name("proxy")),
                "--ports=80".to_owned(),
            ],
        ));
    }

    fn peers(&self, steps: &mut Vec<Step>) {
        let iperf = "tcp:5001,udp:5001,tcp:5201,udp:5201,icmp";
        steps.push(self.rule(
            "The receivers, for machines inside the network.",
            "allow-iperf",
            iperf,
            INSIDE,
            "peer",
        ));
        for number in 1..=self.machines {
            let mut flags = self.machine("peer");
            if self.tier_1 {
                flags.push(
                    "--network-performance-configs=total-egress-bandwidth-tier=TIER_1".to_owned(),
                );
            }
            flags.push(self.startup(MEASURES));
            steps.push(self.step(
                if number == 1 {
                    "The machines; each runs a dashboard and both iperf receivers."
                } else {
                    "One more."
                },
                "instances",
                &format!("vm-{number}"),
                Scope::Zone(self.zone.clone()),
                flags,
            ));
        }
        let project = self.project_words();
        steps.push(Step {
            before: Some(format!(
                "OUTSIDE=$(gcloud compute instances list{project} --filter='name~^{}-vm-' --format='value(networkInterfaces[0].accessConfigs[0].natIP)' | paste -sd , -)",
                self.prefix
            )),
            ..self.rule(
                "A test to an external address comes from the other machine's external address.",
                "allow-outside",
                iperf,
                "\"$OUTSIDE\"",
                "peer",
            )
        });
    }

    fn machine(&self, tag: &str) -> Vec<String> {
        vec![
            format!("--machine-type={}", self.machine_type),
            "--image-family=debian-12".to_owned(),
            "--image-project=debian-cloud".to_owned(),
            format!(
                "--network-interface=network={},nic-type=GVNIC",
                self.name("net")
            ),
            format!("--tags={}", self.name(tag)),
            format!("--metadata-from-file=startup-script={STARTUP}"),
        ]
    }

    fn startup(&self, role: &str) -> String {
        let allow = if role == MEASURES {
            format!(",tidemark-allow={INSIDE}")
        } else {
            String::new()
        };
        format!(
            "--metadata=tidemark-url={},tidemark-sha256=\"$SUM\",{role}{allow}",
            self.binary
        )
    }

    fn rule(&self, why: &'static str, suffix: &str, rules: &str, from: &str, tag: &str) -> Step {
        let mut flags = vec![
            format!("--network={}", self.name("net")),
            "--direction=INGRESS".to_owned(),
            "--action=ALLOW".to_owned(),
            format!("--rules={rules}"),
            format!("--source-ranges={from}"),
        ];
        if !tag.is_empty() {
            flags.push(format!("--target-tags={}", self.name(tag)));
        }
        self.step(why, "firewall-rules", suffix, Scope::Project, flags)
    }

    fn step(
        &self,
        why: &'static str,
        group: &str,
        suffix: &str,
        scope: Scope,
        flags: Vec<String>,
    ) -> Step {
        Step {
            why,
            before: None,
            words: format!("{group} create"),
            removed_by: Some(format!("{group} delete")),
            name: self.name(suffix),
            scope,
            flags,
        }
    }

    fn name(&self, suffix: &str) -> String {
        format!("{}-{suffix}", self.prefix)
    }

    fn remarks(&self) -> Vec<String> {
        let project = self.project_words();
        let through = |name: &str| {
            format!(
                "gcloud compute ssh {} --zone={}{project} -- -L 8080:127.0.0.1:8080",
                self.name(name),
                self.zone
            )
        };
        match self.lab {
            Lab::Balanced => vec![
                format!(
                    "The group takes about a minute. Its health: gcloud compute backend-services get-health {} --global{project}",
                    self.name("backend")
                ),
                format!(
                    "The address to measure: gcloud compute forwarding-rules describe {} --global{project} --format='value(IPAddress)'",
                    self.name("front")
                ),
                format!(
                    "The dashboard, at http://127.0.0.1:8080/ then: {}",
                    through("load")
                ),
                format!(
                    "Each instance gets {} requests a second at most, a region {}.",
                    significant(self.max_rate),
                    significant(self.max_rate * f64::from(self.machines))
                ),
            ],
            Lab::Peers => vec![
                format!(
                    "Both addresses of each, for the Peers page: gcloud compute instances list{project} --filter='name~^{}-vm-'",
                    self.prefix
                ),
                format!(
                    "A dashboard, at http://127.0.0.1:8080/ then: {}",
                    through("vm-1")
                ),
            ],
        }
    }
}

/// Words over several lines, as a shell takes them.
fn broken(words: &[String]) -> String {
    words.join(" \\\n  ")
}

fn line(text: &mut String, content: &str) {
    // Writing to a string cannot fail.
    let _ = writeln!(text, "{content}");
}

#[cfg(test)]
mod tests;
