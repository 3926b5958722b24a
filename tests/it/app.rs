//! The program from outside: ready line, exit statuses, signals.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use crate::support::process::Program;

#[test]
fn the_ready_line_names_what_is_bound_and_stands_alone() {
    let mut program = Program::start(&[]);
    assert_eq!(
        program.ready,
        format!(
            "tidemark ready dashboard=http://{}/ workload=http://{}/ receiver=off receiver3=off",
            program.dashboard(),
            program.workload()
        )
    );
    assert_ne!(program.dashboard().port(), 0);
    program.signal("TERM");
    assert!(program.wait(Duration::from_secs(10)).success());
    assert_eq!(program.rest_of_output(), "");
}

#[test]
fn the_workload_answers() {
    let program = Program::start(&["--dashboard", "off", "--name", "node-7"]);
    let mut stream = TcpStream::connect(program.workload()).unwrap();
    stream
        .write_all(b"GET /health-check HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        .unwrap();
    let mut reply = String::new();
    stream.read_to_string(&mut reply).unwrap();
    assert!(reply.starts_with("HTTP/1.1 200"), "{reply}");
    assert!(reply.contains("node-7"), "{reply}");
}
