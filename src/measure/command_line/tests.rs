//! Lines as people paste them, and plans as lines.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{Reading, Tool, UNLIMITED, WordNote, read, read_words, write, written};
use crate::measure::plan::tests::any_plan;
use crate::measure::plan::{Caps, Plan};
use crate::measure::schedule::Arrivals;

/// The line must be read without a problem to a valid plan with these fields.
fn check(line: &str, expected: &Value) -> Reading {
    let reading = read(line);
    assert_eq!(reading.problems, Vec::<String>::new(), "{line}");
    let plan = reading.plan.clone().expect(line);
    let plan = Plan::from_json(&plan, &Caps::default())
        .unwrap_or_else(|errors| panic!("{line}: {errors:?}"))
        .to_json();
    for (key, value) in expected.as_object().expect("an object") {
        assert_eq!(
            plan.get(key).unwrap_or(&Value::Null),
            value,
            "{line}: {key}"
        );
    }
    reading
}

/// The line must be refused with a sentence that holds these words.
fn refused(line: &str, words: &str) {
    let reading = read(line);
    assert_eq!(reading.plan, None, "{line}");
    assert!(
        reading
            .problems
            .iter()
            .any(|problem| problem.contains(words)),
        "{line}: {:?} lack {words:?}",
        reading.problems
    );
    for problem in &reading.problems {
        assert!(problem.ends_with(['.', ')']), "{problem}");
    }
}

fn meanings(reading: &Reading) -> Vec<(&str, &str, WordNote)> {
    reading
        .words
        .iter()
        .map(|word| (word.text.as_str(), word.meaning.as_str(), word.note))
        .collect()
}

#[test]
fn each_word_of_a_httperf_line_is_explained() {
    use WordNote::{Added, Ignored, Understood};
    let reading = check(
        "httperf --server 10.128.0.20 --num-conns 2000 --rate 13 --timeout 10 --hog",
        &json!({"kind": "rate", "url": "http://10.128.0.20/", "rate": 13, "num_conns": 2000,
            "num_calls": 1, "timeout_s": 10, "method": "GET", "schedule": "deterministic"}),
    );
    assert_eq!(reading.tool, Tool::Httperf);
    assert_eq!(
        meanings(&reading),
        [
            ("httperf", "open loop, evenly spaced", Understood),
            ("--server 10.128.0.20", "the target", Understood),
            ("--num-conns 2000", "2000 connections in all", Understood),
            (
                "--rate 13",
                "13 connections begun per second, whatever the server does",
                Understood
            ),
            (
                "--timeout 10",
                "counted from the actual send to the end of the reply",
                Understood
            ),
            ("--hog", "not needed: ports are chosen here", Ignored),
            ("no --port", "port 80", Added),
            ("no --uri", "path /", Added),
            ("no --num-calls", "one call each", Added),
        ]
    );
}

#[test]
fn httperf_lines_of_every_form_are_read() {
    check(
        "httperf --client=0/1 --server=webserver --port=80 --uri=/ --rate=4 --send-buffer=4096 --recv-buffer=16384 --num-conns=500 --num-calls=1",
        &json!({"url": "http://webserver/", "rate": 4, "num_conns": 500, "timeout_s": 120}),
    );
    check(
        "httperf --hog --server www --num-conns 100 --ra 10 --timeout 5",
        &json!({"url": "http://www/", "rate": 10, "num_conns": 100, "timeout_s": 5}),
    );
    check(
        "httperf --server h",
        &json!({"rate": 0, "num_conns": 1, "timeout_s": 120}),
    );
    check(
        "httperf --server h --ssl --think-timeout 2 --timeout 3.5",
        &json!({"url": "https://h/", "timeout_s": 5.5, "insecure": false}),
    );
    check(
        "httperf --server ::1 --port 8000 --uri '/?work=light' --rate 2.5 --num-calls 3 --method HEAD -v",
        &json!({"url": "http://[::1]:8000/?work=light", "rate": 2.5, "num_calls": 3, "method": "HEAD"}),
    );
    check(
        r#"httperf --server h --add-header "Referer: foo\nAuth: \163ecret\n" --server-name www.example"#,
        &json!({"headers": {"Referer": "foo", "Auth": "secret", "Host": "www.example"}}),
    );
    check(
        "httperf --server h --num-conns 9 --period d0.2",
        &json!({"rate": 5, "schedule": "deterministic"}),
    );
    check(
        "httperf --server h --num-conns 9 --period=0.14285714285714285",
        &json!({"rate": 7}),
    );
    check(
        "httperf --server h --num-conns 9 --period e0.05",
        &json!({"rate": 20, "schedule": "exponential"}),
    );
    check(
        "httperf --server h --period v0.2,20,0.1,20",
        &json!({"rate": [[5, 20], [10, 20]], "num_conns": null}),
    );
    check(
        "httperf --server h --rate 5 --runtime 12",
        &json!({"rate": 5, "duration_s": 12, "num_conns": null}),
    );
    check(
        "httperf --server h --burst-length 1 --print-reply=header --print-request --max-connections 4 --no-host-hdr --close-with-reset -d 1 -n",
        &json!({"num_conns": 1}),
    );
    check(
        "httperf --server h --ssl --ssl-verify=no --myaddr 10.0.0.1",
        &json!({"insecure": true, "bind": "10.0.0.1"}),
    );
}

#[test]
fn what_httperf_can_and_we_cannot_is_named() {
    for (rest, words) in [
        (
            "--burst-length 2 --num-calls 3",
            "--burst-length is not supported",
        ),
        ("--wsess 10,5,2", "Sessions"),
        ("--wsesslog 10,2,f", "Sessions"),
        ("--wlog y,uris", "--wlog is not supported"),
        ("--wset 10,0.5", "--wset is not supported"),
        ("--http-version 1.0", "--http-version can only be 1.1"),
        ("--period u1,3", "--period u"),
        ("--period x", "--period takes"),
        ("--period v1,2,3", "--period takes"),
        ("--servers f", "--servers"),
        ("--ssl-ciphers A:B", "cannot be chosen"),
        ("--help", "starts no test"),
        ("--frobnicate 5", "no option --frobnicate"),
        ("-z", "no option -z"),
        ("--num", "--num can mean --num-calls or --num-conns"),
        ("--rate", "needs a value"),
        ("--rate fast", "needs a number"),
        ("--rate NaN", "needs a number"),
        ("--num-conns 1.5", "needs a whole number"),
        ("--num-conns -5", "needs a whole number"),
        ("--hog=5", "takes no value"),
        ("--port 70000", "1 to 65535"),
        ("--uri http://h/", "begins with /"),
        ("--server http://h/", "without http://"),
        ("http://h/", "no bare word"),
        ("--add-header nonsense", "Name: value"),
    ] {
        refused(&format!("httperf --server h {rest}"), words);
    }
    let reading = read("httperf --server h --rate 5 --frobnicate --num-conns 9");
    assert_eq!(
        reading.draft.unwrap()["rate"],
        json!(5),
        "what was understood still fills the form"
    );
}

#[test]
fn siege_lines_are_read() {
    let reading = check(
        "siege -c 4 -r 20 web",
        &json!({"kind": "users", "url": "http://web/", "concurrent": 4, "reps": 20, "delay_s": 0,
            "timeout_s": 30, "order": "in_turn", "keep_alive": false}),
    );
    assert_eq!(reading.tool, Tool::Siege);
    check(
        "siege -c4 -t10S -d1 http://web:8000/?work=light",
        &json!({"url": "http://web:8000/?work=light", "concurrent": 4, "duration_s": 10, "delay_s": 1}),
    );
    check(
        "siege --concurrent=4 --reps=once -b -i -v -q web",
        &json!({"reps": 1, "concurrent": 4, "order": "random"}),
    );
    check(
        "siege -t 2h web",
        &json!({"duration_s": 7200, "concurrent": 25}),
    );
    check("siege -t2 web", &json!({"duration_s": 120}));
    check("siege -t1m web", &json!({"duration_s": 60}));
    let reading = check(
        "siege -r 1 -j -H 'X-A: b' -A me -T text/plain -lfile -m note -R rc 'http://web/ POST a=1&b=2 c'",
        &json!({"method": "POST", "body": "a=1&b=2 c",
            "headers": {"X-A": "b", "User-Agent": "me", "Content-Type": "text/plain"}}),
    );
    assert!(reading.output.json);
    check(
        "siege -r 1 web POST a=1",
        &json!({"method": "POST", "body": "a=1",
            "headers": {"Content-Type": "application/x-www-form-urlencoded"}}),
    );
    check(
        "siege -g https://web/x",
        &json!({"kind": "fetch", "url": "https://web/x", "timeout_s": 30}),
    );
}

#[test]
fn siege_lines_without_an_end_or_with_files_are_refused() {
    for (line, words) in [
        ("siege web", "would never end"),
        ("siege -c 10 web", "would never end"),
        ("siege -r 1 -t 5S web", "both -r and -t"),
        ("siege -r 5", "URL is missing"),
        (
            "siege -r 5 -f urls.txt",
            "cannot be read from a pasted line",
        ),
        (
            "siege -r 5 'web POST <file'",
            "cannot be read from a pasted line",
        ),
        ("siege -r 5 web other", "several URLs"),
        ("siege -r x web", "needs a whole number"),
        ("siege -t 5.5S web", "whole number with S, M or H"),
        ("siege -t S web", "whole number with S, M or H"),
        ("siege -t 99999999999999999999H web", "whole number"),
        ("siege -d soon -r 1 web", "needs a number"),
        ("siege -H nonsense -r 1 web", "Name: value"),
        ("siege -C", "starts no test"),
        ("siege -x -r 1 web", "no option -x"),
        ("siege -r 1 -c", "needs a value"),
    ] {
        refused(line, words);
    }
}

#[test]
fn curl_lines_are_read() {
    let reading = check(
        r#"curl -w "%{time_total}\n" -o /dev/null -s http://10.0.0.1:8000/"#,
        &json!({"kind": "fetch", "url": "http://10.0.0.1:8000/", "method": "GET", "timeout_s": 30}),
    );
    assert_eq!(reading.tool, Tool::Curl);
    assert_eq!(
        reading.output.write_out.as_deref(),
        Some("%{time_total}\\n")
    );
    assert!(reading.output.quiet);
    check("curl h", &json!({"url": "http://h/"}));
    check(
        "curl -I -m 5 --http1.1 -4 -L h",
        &json!({"method": "HEAD", "timeout_s": 5}),
    );
    check(
        "curl -sSk -XPUT -H'A: b' -H 'Empty;' -A me -e from -b a=1 -r 0-9 -u me:pw -d x=1 -d y=2 https://h/",
        &json!({"method": "PUT", "insecure": true, "body": "x=1&y=2", "headers": {
            "A": "b", "Empty": "", "User-Agent": "me", "Referer": "from", "Cookie": "a=1", "Range": "bytes=0-9",
            "Authorization": "Basic bWU6cHc=", "Content-Type": "application/x-www-form-urlencoded"}}),
    );
    check(
        "curl --cacert ca.pem --json '{\"a\": \"$5\"}' --url https://h/",
        &json!({"method": "POST", "ca": "ca.pem", "body": "{\"a\": \"$5\"}",
            "headers": {"Content-Type": "application/json", "Accept": "application/json"}}),
    );
}

#[test]
fn curl_lines_that_ask_for_more_are_refused() {
    for (line, words) in [
        ("curl", "URL is missing"),
        ("curl h other", "give one URL"),
        ("curl -d @file h", "cannot be read from a pasted line"),
        ("curl -u me h", "password"),
        ("curl -b jar h", "cannot be read from a pasted line"),
        ("curl --http2 h", "Only HTTP/1.1"),
        ("curl -x proxy h", "Proxies"),
        ("curl -F a=b h", "--form"),
        ("curl --resolve h:80:1.2.3.4 h", "--resolve"),
        ("curl --frob h", "no option --frob"),
        ("curl -m soon h", "needs a number"),
        ("curl -V", "starts no test"),
    ] {
        refused(line, words);
    }
}

#[test]
fn lines_are_read_as_people_paste_them() {
    let expected = json!({"url": "http://h/", "rate": 5, "num_conns": 9});
    for line in [
        "  $ httperf --server h --rate 5 --num-conns 9  ",
        "# httperf --server h --rate 5 --num-conns 9",
        "me@host:~$ httperf --server h --rate 5 --num-conns 9",
        "httperf --server h \\\n  --rate 5 \\\r\n  --num-conns 9\n",
        "httperf --server h \\  \n --rate 5 --num-conns 9 \\",
        "LANG=C time /usr/bin/httperf --server h --rate 5 --num-conns 9",
        "time -p sudo httperf --server h --rate 5 --num-conns 9 &",
        "httperf --server h --rate 5 --num-conns 9 2>&1 | grep 'Errors\\|ion time'",
        "httperf --server h --rate 5 --num-conns 9 > out.txt 2>/dev/null",
        "httperf --server h --rate 5 --num-conns 9 &> out.txt;",
        "httperf --server h --rate 5 --num-conns 9 # a note",
        "# my test\nhttperf --server h --rate 5 --num-conns 9\n# done",
        "httperf –server h —rate 5 −−num-conns 9",
        "httperf --server “h” --rate ‘5’ --num-conns\u{a0}9",
        "tidemark run httperf --server h --rate 5 --num-conns 9",
        "./target/release/tidemark run --format json --save --objective 'p99<1s' httperf --server h --rate 5 --num-conns 9",
    ] {
        check(line, &expected);
    }
    let reading = check(
        "httperf --server h --rate 5 --num-conns 9 2>&1 | grep ion",
        &expected,
    );
    assert_eq!(
        meanings(&reading)[reading.words.len() - 2..],
        [
            (
                "2>&1",
                "not needed: the report is kept here",
                WordNote::Ignored
            ),
            (
                "| grep ion",
                "what stands behind a pipe is not run here",
                WordNote::Ignored
            ),
        ]
    );
    check(
        "curl http://h/?a=1&b=2;c",
        &json!({"url": "http://h/?a=1&b=2;c"}),
    );
    check(
        r#"{"kind": "fetch", "url": "http://h/x?a=1&b=$2"}"#,
        &json!({"url": "http://h/x?a=1&b=$2"}),
    );
}

#[test]
fn what_needs_a_shell_is_refused() {
    for (line, words) in [
        ("", "There is no command"),
        ("$", "There is no command"),
        (
            "for r in 4 5 7 10; do httperf --server w --num-conns 500 --rate $r; done",
            "shell loop",
        ),
        ("httperf --server $HOST", "$HOST is a variable"),
        ("httperf --server \"${HOST}\"", "in $( )"),
        ("httperf --server $(cat host)", "in $( )"),
        ("curl `cat url`", "in $( )"),
        (
            "httperf --server h && httperf --server i",
            "more than one command",
        ),
        ("httperf --server h; siege -r 1 h", "more than one command"),
        (
            "httperf --server h\nhttperf --server i",
            "more than one command",
        ),
        ("httperf --server 'h", "not closed"),
        ("httperf --server \"h", "not closed"),
        ("wrk -t2 http://h/", "wrk is not understood here"),
        ("http://h/", "ping, tracepath and curl lines are"),
        ("{\"kind\": ", "is not JSON"),
    ] {
        refused(line, words);
    }
}

#[test]
fn long_hostile_lines_are_read_in_linear_time() {
    for piece in [
        "#\n", " \n", "$ ", "\\ ", "> ", "1>", "–", "&", ";a", "'", "# # ", "-d 1 ", "a=b ",
        "time ",
    ] {
        for start in [
            "",
            "httperf --server h ",
            "siege -r 1 ",
            "curl ",
            "iperf -c h ",
        ] {
            let line = format!("{start}{}", piece.repeat(100_000));
            let reading = read(&line);
            assert_eq!(reading.plan.is_some(), reading.problems.is_empty());
        }
    }
}

#[test]
fn every_tool_is_recognised() {
    for (line, tool) in [
        ("iperf -c 10.0.0.2 -P 16 -t 30", Tool::Iperf),
        ("/usr/bin/iperf -c h", Tool::Iperf),
        ("time iperf3 -c h", Tool::Iperf3),
        ("$ iperf -s -u", Tool::Iperf),
        ("ping -c 5 h", Tool::Ping),
        ("tracepath h", Tool::Path),
        ("# ip link", Tool::Path),
        ("ifconfig | grep mtu", Tool::Path),
        ("fping h", Tool::Unknown),
    ] {
        assert_eq!(read(line).tool, tool, "{line}");
    }
}

#[test]
fn plans_are_written_as_people_would() {
    for (plan, expected) in [
        (
            json!({"kind": "rate", "url": "http://10.128.0.20/", "rate": 13, "num_conns": 2000, "timeout_s": 10}),
            "httperf --server 10.128.0.20 --port 80 --uri / --rate 13 --num-conns 2000 --timeout 10",
        ),
        (
            json!({"kind": "rate", "url": "http://h:8000/?a=1&b", "rate": 0, "num_conns": 5, "num_calls": 3, "headers": {"A": "it's"}}),
            r"httperf --server h --port 8000 --uri '/?a=1&b' --num-conns 5 --num-calls 3 --timeout 120 --add-header 'A: it'\''s\n'",
        ),
        (
            json!({"kind": "rate", "url": "http://h/", "rate": 20, "duration_s": 15}),
            "httperf --server h --port 80 --uri / --rate 20 --num-conns 300 --timeout 120",
        ),
        (
            json!({"kind": "rate", "url": "http://h/", "rate": [[5, 20], [7, 20]]}),
            "httperf --server h --port 80 --uri / --period v0.2,20,0.14285714285714285,20 --num-conns 240 --timeout 120",
        ),
        (
            json!({"kind": "users", "url": "http://h/", "concurrent": 4, "reps": 20}),
            "siege -c 4 -r 20 -b --no-parser --no-follow http://h/",
        ),
        (
            json!({"kind": "users", "url": "http://h/", "duration_s": 90, "delay_s": 0.5}),
            "siege -c 25 -t 90S -d 0.5 --no-parser --no-follow http://h/",
        ),
        (
            json!({"kind": "fetch", "url": "https://h/", "insecure": true}),
            r"curl -sS -o /dev/null -w '%{time_total}\n' --max-time 30 -k https://h/",
        ),
    ] {
        let plan = Plan::from_json(&plan, &Caps::default()).unwrap();
        assert_eq!(write(&plan), expected);
    }
}

#[test]
fn what_the_tool_cannot_say_is_said_and_the_exact_line_given() {
    let plan = json!({"kind": "rate", "url": "http://h/", "rate": 5, "num_conns": 9, "max_in_flight": 300, "body": "it's"});
    let plan = Plan::from_json(&plan, &Caps::default()).unwrap();
    let written = written(&plan);
    assert!(!written.exact);
    assert_eq!(
        written.line,
        "httperf --server h --port 80 --uri / --rate 5 --num-conns 9 --timeout 120"
    );
    assert_eq!(
        written.differs,
        [
            "httperf sends no request body outside sessions.",
            "httperf has no limit of requests in flight; this plan has 300."
        ]
    );
    assert_eq!(write(&plan), written.tidemark);
    assert!(written.tidemark.starts_with("tidemark run "));
}

/// The same plan, but for the words of a count that stands for a time.
fn sends_the_same(one: &Plan, other: &Plan) -> bool {
    if one == other {
        return true;
    }
    match (one, other) {
        (Plan::Rate(one), Plan::Rate(other)) => {
            let starts: Vec<_> = Arrivals::new(one).collect();
            let mut again = other.clone();
            again.num_conns = one.num_conns;
            again.duration_s = one.duration_s;
            again == *one && starts == Arrivals::new(other).collect::<Vec<_>>()
        }
        _ => false,
    }
}

proptest! {
    #[test]
    fn what_is_written_is_read_back(plan in any_plan()) {
        let line = write(&plan);
        let reading = read(&line);
        prop_assert!(reading.problems.is_empty(), "{line}: {:?}", reading.problems);
        let again = Plan::from_json(&reading.plan.unwrap(), &UNLIMITED);
        prop_assert!(again.as_ref().is_ok_and(|again| sends_the_same(&plan, again)), "{line}: {again:?}");
    }

    #[test]
    fn the_line_for_this_program_is_always_exact(plan in any_plan()) {
        let written = written(&plan);
        let reading = read(&written.tidemark);
        prop_assert_eq!(Plan::from_json(&reading.plan.unwrap(), &UNLIMITED), Ok(plan.clone()));
        let words = shell_words::split(&written.tidemark).unwrap();
        let reading = read_words(&words[2..]);
        prop_assert_eq!(Plan::from_json(&reading.plan.unwrap(), &UNLIMITED), Ok(plan));
    }

    #[test]
    fn no_line_makes_it_panic(
        start in prop::sample::select(vec!["", "httperf ", "siege ", "curl ", "iperf -c ", "ping ", "$ ", "tidemark run ", "{\"kind\":"]),
        line in "\\PC{0,40}",
        symbols in "[\\\\'\"“”‘’`$&;|<>#\\-–— =a-z0-9\n\r{}()]{0,40}",
    ) {
        for line in [format!("{start}{line}"), format!("{start}{symbols}")] {
            let reading = read(&line);
            prop_assert_eq!(reading.plan.is_some(), reading.problems.is_empty(), "{}", line);
        }
    }

    #[test]
    fn no_options_make_it_panic(
        tool in prop::sample::select(vec!["httperf", "siege", "curl", "iperf", "iperf3", "ping", "tracepath", "ip"]),
        words in prop::collection::vec(prop_oneof![
            "--[a-z-]{0,9}(=[ -~]{0,6})?",
            "-[a-zA-Z0-9#]{1,3}",
            "[ -~]{0,9}",
            prop::sample::select(vec!["--rate", "--num-conns", "--server", "--period", "--add-header", "-t", "-r", "-c",
                "-d", "-H", "--time", "http://h/", "5", "e0.1", "v1,2", "10S", "A: b", "--port", "-m", "-w", "--runtime",
                "-s", "-u", "-b", "-n", "-P", "10k", "-i", "-B", "::1", "127.0.0.1", "-l", "-O"])
                .prop_map(str::to_owned),
        ], 0..8),
    ) {
        let mut all = vec![tool.to_owned()];
        all.extend(words);
        let reading = read_words(&all);
        prop_assert_eq!(reading.plan.is_some(), reading.problems.is_empty());
        if let Some(plan) = reading.plan.and_then(|plan| Plan::from_json(&plan, &Caps::default()).ok()) {
            prop_assert!(read(&write(&plan)).problems.is_empty());
        }
    }
}
