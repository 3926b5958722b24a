//! Who may open the dashboard: the tokens, where they are kept, and the link that the start prints.

use std::fs::{self, File};
use std::io::{self, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;

use super::Failure;
use super::data::plain;
use crate::config::{Config, is_token};
use crate::guard::{Access, Scope, secret};

/// The file of the data folder that holds the token made at the first start.
const FILE: &str = "token";

/// The login of a dashboard that is bound at these addresses: none on loopback, unless a token is given.
///
/// # Errors
/// A token that cannot be read, made or used.
pub(super) fn access(config: &Config, bound: &[SocketAddr]) -> Result<Arc<Access>, Failure> {
    let exposed = bound
        .iter()
        .any(|address| !address.ip().to_canonical().is_loopback());
    let login = &config.login;
    if bound.is_empty() || !(exposed || login.is_asked_for()) {
        return Ok(Access::open());
    }
    let token = match (&login.token, &login.token_file) {
        (Some(token), _) => token.clone(),
        (None, Some(file)) => read(file, "--token-file")?,
        (None, None) => kept(&config.data.join(FILE))?,
    };
    let mut tokens = vec![(Scope::Admin, token)];
    tokens.extend(login.launch_token.clone().map(|it| (Scope::Launch, it)));
    tokens.extend(login.view_token.clone().map(|it| (Scope::View, it)));
    let secure = config
        .public_url
        .as_ref()
        .is_some_and(|url| url.scheme() == "https");
    let port = bound[0].port();
    let access = Access::login(tokens, port, secure, config.trusted_proxies.clone());
    let code = access.code().map_err(|error| no_chance(&error))?;
    let base = base(config, bound[0]);
    let later = match (&login.token, &login.token_file) {
        (Some(_), _) => String::new(),
        (None, Some(file)) => format!("; later with the token in {}", file.display()),
        (None, None) => {
            let file = config.data.join(FILE);
            format!("; later with the token in {}", file.display())
        }
    };
    let mut said =
        format!("tidemark: log in, once and within 10 minutes, at {base}login?code={code} {later}");
    if exposed && !secure {
        said.push_str(
            "\ntidemark: the dashboard speaks no TLS: put a TLS proxy in front of it and set --public-url https://…",
        );
    }
    let _ = writeln!(io::stderr(), "{said}");
    Ok(access)
}

/// Where a person opens the dashboard; ends in a slash.
fn base(config: &Config, bound: SocketAddr) -> String {
    if let Some(url) = &config.public_url {
        return format!("{}/", url.as_str().trim_end_matches('/'));
    }
    let mut address = bound;
    if address.ip().is_unspecified() {
        address.set_ip(match address {
            SocketAddr::V4(_) => IpAddr::V4(Ipv4Addr::LOCALHOST),
            SocketAddr::V6(_) => IpAddr::V6(Ipv6Addr::LOCALHOST),
        });
    }
    format!("http://{address}/")
}

fn read(file: &Path, named: &str) -> Result<String, Failure> {
    let text = fs::read_to_string(file).map_err(|error| {
        Failure::configuration(format!(
            "{named} {} cannot be read ({}).",
            file.display(),
            match error.kind() {
                io::ErrorKind::NotFound => "no such file".to_owned(),
                _ => plain(&error),
            }
        ))
    })?;
    let token = text.trim();
    is_token(token).map_err(|why| {
        Failure::configuration(format!("{named} {}: the token {why}.", file.display()))
    })?;
    Ok(token.to_owned())
}

/// The token of the data folder, made if there is none.
fn kept(file: &Path) -> Result<String, Failure> {
    if let Ok(found) = fs::metadata(file) {
        if found.mode() & 0o077 != 0 {
            return Err(Failure::configuration(format!(
                "others may read {} (mode {:o}): chmod 600 it, or delete it for a new token.",
                file.display(),
                found.mode() & 0o777
            )));
        }
        return read(file, "the token file");
    }
    let token = secret().map_err(|error| no_chance(&error))?;
    File::options()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(file)
        .and_then(|mut file| {
            writeln!(file, "{token}")?;
            file.sync_all()
        })
        .map_err(|error| {
            Failure::other(format!(
                "the token file {} cannot be written ({}).",
                file.display(),
                plain(&error)
            ))
        })?;
    Ok(token)
}

fn no_chance(error: &io::Error) -> Failure {
    Failure::other(format!(
        "this system gives no random numbers, so no token can be made ({error})."
    ))
}
