//! Command lines and what they mean.

use super::*;

fn asked(line: &str) -> Result<Asked, Declined> {
    read(
        shell_words::split(&format!("tidemark {line}"))
            .unwrap()
            .into_iter()
            .map(OsString::from),
    )
}

fn config(line: &str) -> Config {
    match asked(line) {
        Ok(Asked::Serve(config)) => *config,
        other => panic!("{line}: {other:?}"),
    }
}

#[test]
fn no_argument_serves_with_the_defaults() {
    for line in ["", "serve"] {
        let config = config(line);
        assert_eq!(config.dashboard, ["127.0.0.1:8080".parse().unwrap()]);
        assert_eq!(config.workload, ["127.0.0.1:8000".parse().unwrap()]);
        assert_eq!(config.drain, Duration::from_secs(10));
        assert_eq!(config.workload_settings.queue, 512);
        assert_eq!(config.workload_settings.backlog, 4096);
        assert!((config.caps().max_rate - 100_000.0).abs() < 0.5);
        assert_eq!(config.caps().max_connections, 10_000_000);
        assert_eq!(
            config.limits.identity,
            NameSource::Header("X-Served-By".to_owned())
        );
    }
}

#[test]
fn flags_stand_with_and_without_the_word_serve() {
    for line in [
        "--workload off --dashboard [::1]:0 --dashboard 127.0.0.1:0 --allow 10.0.0.0/8,192.0.2.1 --allow fd00::/8",
        "serve --workload off --dashboard [::1]:0,127.0.0.1:0 --allow 10.0.0.0/8 --allow 192.0.2.1,fd00::/8",
    ] {
        let config = config(line);
        assert_eq!(config.dashboard.len(), 2);
        assert!(config.workload.is_empty());
        assert_eq!(config.allow.len(), 3);
    }
}

#[test]
fn the_tutorial_preset_is_the_source_labs_server() {
    let settings = config("--workload-preset tutorial").workload_settings;
    assert_eq!(
        (
            settings.threads,
            settings.in_service,
            settings.queue,
            settings.backlog
        ),
        (2, 40, 0, 5)
    );
    assert_eq!(settings.discipline, Discipline::Shared);
    assert_eq!(settings.when_full, WhenFull::StopAccepting);
}

#[test]
fn run_passes_the_tools_words_untouched() {
    let check = |line: &str, expected: &[&str]| match asked(line) {
        Ok(Asked::Run(options)) => assert_eq!(options.words, expected, "{line}"),
        other => panic!("{line}: {other:?}"),
    };
    check(
        "run httperf --server 127.0.0.1 --port 8000 --num-conns 500 --rate 7",
        &[
            "httperf",
            "--server",
            "127.0.0.1",
            "--port",
            "8000",
            "--num-conns",
            "500",
            "--rate",
            "7",
        ],
    );
    check(
        "run --save curl -w '%{time_total}\\n' -o /dev/null -s --help URL",
        &[
            "curl",
            "-w",
            "%{time_total}\\n",
            "-o",
            "/dev/null",
            "-s",
            "--help",
            "URL",
        ],
    );
    check(
        "run siege -c 4 --format text -- URL",
        &["siege", "-c", "4", "--format", "text", "--", "URL"],
    );
}

#[test]
fn what_cannot_be_is_one_line_that_names_the_flag() {
    let check = |line: &str, flag: &str| match asked(line) {
        Err(Declined::Usage(message)) => {
            assert!(message.contains(flag), "{line}: {message}");
            assert!(!message.contains('\n'), "{line}: {message}");
        }
        other => panic!("{line}: {other:?}"),
    };
    check("--dashboard nowhere", "--dashboard");
    check("--dashboard off,127.0.0.1:0", "--dashboard");
    check(
        "--dashboard off --workload off --receiver off --receiver3 off",
        "--workload",
    );
    check("--token abc --token-file f", "--token-file");
    check("--token=", "--token");
    check("--view-token=ä", "--view-token");
    check("--public-read", "--public-read");
    check("--public-url ftp://x/", "--public-url");
    check("--public-url nonsense", "--public-url");
    check("--allow 10.0.0.0/99", "--allow");
    check("--max-rate -1", "--max-rate");
    check("--max-users 0", "--max-users");
    check("--max-users 5000000000", "--max-users");
    check("--max-duration never", "--max-duration");
    check("--workload-threads 0", "--workload-threads");
    check("--workload-threads 99999", "--workload-threads");
    check(
        "--workload-in-service 40 --workload-threads 2",
        "--workload-in-service",
    );
    check("--workload-discipline lifo", "--workload-discipline");
    check(
        "--workload-preset tutorial --workload-queue 3",
        "--workload-queue",
    );
    check("--workload-preset classroom", "--workload-preset");
    check("--identity-header 'a b'", "--identity-header");
    check("--name 'two\nlines'", "--name");
    check("--drain-seconds soon", "--drain-seconds");
    check("--no-such-flag", "--no-such-flag");
    check("selftest --format yaml", "--format");
    check("agent --nats nats://x", "agent");
    check("run", "COMMAND LINE");
    check("dance", "dance");
}

#[test]
fn help_and_version_are_information() {
    let text = |line: &str| match asked(line) {
        Err(Declined::Information(text)) => text,
        other => panic!("{line}: {other:?}"),
    };
    assert!(text("--version").contains(env!("CARGO_PKG_VERSION")));
    let help = text("--help");
    assert!(help.contains("--workload-preset") && help.contains("TIDEMARK_DATA"));
    assert!(help.contains("selftest") && !help.contains("agent"));
}

#[test]
fn a_self_test_is_asked_for_with_its_length_and_form() {
    match asked("selftest --quick --format json --data /nowhere --name eu-a") {
        Ok(Asked::SelfTest(options)) => {
            assert!(options.quick && options.format == super::flags::SelfTestFormat::Json);
            assert_eq!(options.name, "eu-a");
        }
        other => panic!("{other:?}"),
    }
}
