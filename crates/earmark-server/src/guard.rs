//! Requests that a web page of elsewhere could have caused are refused.

use axum::{
    extract::{Request, State},
    http::{HeaderMap, header},
    middleware::Next,
    response::Response,
};

use crate::{app::App, config::Config, problem::Problem};

/// Refuses foreign `Host` names (a name rebound to loopback) and foreign `Origin`s (a page of another site).
pub(crate) async fn refuse_foreign(State(app): State<App>, request: Request, next: Next) -> Result<Response, Problem> {
    let host = host(&request)?;
    check_host(app.config(), host.as_deref())?;
    check_origin(request.headers(), host.as_deref())?;
    Ok(next.run(request).await)
}

/// `host[:port]` as the client names the server.
fn host(request: &Request) -> Result<Option<String>, Problem> {
    if let Some(authority) = request.uri().authority() {
        return Ok(Some(authority.as_str().to_owned()));
    }
    let mut values = request.headers().get_all(header::HOST).iter();
    let first = values.next().map(|value| value.to_str().map(str::to_owned));
    match (first, values.next()) {
        (None, _) => Ok(None),
        (Some(Ok(host)), None) => Ok(Some(host)),
        _ => Err(Problem::forbidden("the request must have one readable Host header")),
    }
}

fn check_host(config: &Config, host: Option<&str>) -> Result<(), Problem> {
    let Some(host) = host else { return Ok(()) };
    let name = without_port(host);
    let anything_goes = !config.listen.ip().is_loopback() && config.allowed_hosts.is_empty();
    let allowed = config.allowed_hosts.iter().any(|allowed| allowed.eq_ignore_ascii_case(name));
    if anything_goes || allowed || is_loopback(name) {
        return Ok(());
    }
    Err(Problem::forbidden("this Host name is not served here; name it with --allowed-host if it should be"))
}

fn check_origin(headers: &HeaderMap, host: Option<&str>) -> Result<(), Problem> {
    let Some(origin) = headers.get(header::ORIGIN) else { return Ok(()) };
    let site = origin.to_str().ok().and_then(|origin| origin.split_once("://")).map(|(_, site)| site);
    if site.is_some() && site == host {
        return Ok(());
    }
    Err(Problem::forbidden("requests from pages of another site are refused"))
}

fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port))
            if port.bytes().all(|b| b.is_ascii_digit()) && (!name.contains(':') || name.ends_with(']')) =>
        {
            name
        }
        _ => host,
    }
}

fn is_loopback(name: &str) -> bool {
    let bare = name.strip_prefix('[').and_then(|n| n.strip_suffix(']')).unwrap_or(name);
    name.eq_ignore_ascii_case("localhost") || bare.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_by_any_name_and_nothing_else() {
        let config = Config { allowed_hosts: vec!["memory.home".to_owned()], ..Default::default() };
        for good in ["localhost", "localhost:3277", "127.0.0.1:80", "[::1]:3277", "[::1]", "127.8.9.1", "memory.home:1"]
        {
            assert!(check_host(&config, Some(good)).is_ok(), "{good}");
        }
        for bad in
            ["evil.example", "localhost.evil.example", "127.0.0.1.evil.example:80", "", "10.0.0.1", "localhost:80:80"]
        {
            assert!(check_host(&config, Some(bad)).is_err(), "{bad}");
        }
    }
}
