//! The endpoint behind the proxy.

use std::time::Duration;

use axum::{
    body::Body,
    http::{HeaderMap, HeaderName, Request, StatusCode, Uri, header, request::Parts},
};
use earmark::{Error, Result};
use hyper::{Response, body::Incoming};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioExecutor,
};

use crate::problem::Problem;

/// Headers that concern one connection, or only the proxy.
const NOT_PASSED: [HeaderName; 10] = [
    header::CONNECTION,
    header::CONTENT_LENGTH,
    header::HOST,
    header::ORIGIN,
    header::PROXY_AUTHENTICATE,
    header::PROXY_AUTHORIZATION,
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
];

pub(super) struct Upstream {
    client: Client<HttpsConnector<HttpConnector>, Body>,
    /// Address up to and with the version: `http://host:port/v1`.
    base: String,
}

impl Upstream {
    pub(super) fn new(url: &str) -> Result<Upstream> {
        let base = base(url)?;
        let mut http = HttpConnector::new();
        http.enforce_http(false);
        http.set_connect_timeout(Some(Duration::from_secs(10)));
        http.set_nodelay(true);
        let https = HttpsConnectorBuilder::new().with_webpki_roots().https_or_http().enable_http1();
        let client = Client::builder(TokioExecutor::new()).build(https.wrap_connector(http));
        Ok(Upstream { client, base })
    }

    /// Sends a request on to the same place under the endpoint's address.
    ///
    /// # Errors
    /// 502 if the endpoint cannot be reached.
    pub(super) async fn send(&self, parts: &Parts, body: Body) -> std::result::Result<Response<Incoming>, Problem> {
        let place = parts.uri.path_and_query().map_or("", |place| place.as_str());
        let address = format!("{}{}", self.base, place.strip_prefix("/v1").unwrap_or(place));
        let uri: Uri = address.parse().map_err(|_| Problem::invalid("", "the path cannot be passed on"))?;
        let mut request = Request::builder().method(parts.method.clone()).uri(uri).body(body);
        if let Ok(request) = &mut request {
            *request.headers_mut() = passed(&parts.headers);
        }
        let request = request.map_err(|_| Problem::invalid("", "the request cannot be passed on"))?;
        let mut response = self.client.request(request).await.map_err(|error| unreachable(&error))?;
        *response.headers_mut() = passed_back(response.headers());
        Ok(response)
    }
}

fn unreachable(error: &hyper_util::client::legacy::Error) -> Problem {
    tracing::error!(?error, "the upstream failed");
    let what = if error.is_connect() { "cannot be reached" } else { "broke off" };
    let detail = format!("the model endpoint behind this proxy {what}; check --upstream and whether it runs");
    Problem::new(StatusCode::BAD_GATEWAY, "upstream", detail)
}

fn passed(headers: &HeaderMap) -> HeaderMap {
    let ours = |name: &HeaderName| name.as_str().starts_with("x-earmark-") || name == "keep-alive";
    let pairs = headers.iter().filter(|(name, _)| !NOT_PASSED.contains(name) && !ours(name));
    pairs.map(|(name, value)| (name.clone(), value.clone())).collect()
}

fn passed_back(headers: &HeaderMap) -> HeaderMap {
    let ours = [header::CONNECTION, header::TRANSFER_ENCODING, header::UPGRADE];
    let pairs = headers.iter().filter(|(name, _)| !ours.contains(name) && *name != "keep-alive");
    pairs.map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// `http://h:1` and `http://h:1/v1/` are the same; any other path is taken for the versioned base that it is.
fn base(url: &str) -> Result<String> {
    let address = url.trim().trim_end_matches('/').trim_end_matches("/chat/completions");
    let rest = address.strip_prefix("https://").or_else(|| address.strip_prefix("http://"));
    let good = rest.is_some_and(|rest| !rest.is_empty() && !rest.starts_with('/')) && address.parse::<Uri>().is_ok();
    if !good || address.contains(['?', '#']) {
        let reason = format!("has to be an address such as http://127.0.0.1:8080/v1, received `{url}`");
        return Err(Error::invalid("upstream", reason));
    }
    let has_path = rest.is_some_and(|rest| rest.contains('/'));
    Ok(if has_path { address.to_owned() } else { format!("{address}/v1") })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base_addresses() {
        for (url, expected) in [
            ("http://h:1", "http://h:1/v1"),
            ("http://h:1/", "http://h:1/v1"),
            ("http://h:1/v1", "http://h:1/v1"),
            ("https://h/api/paas/v4/", "https://h/api/paas/v4"),
            ("http://h:1/v1/chat/completions", "http://h:1/v1"),
        ] {
            assert_eq!(base(url).unwrap(), expected, "{url}");
        }
        for url in ["", "h:1", "ftp://h", "http://", "http:///v1", "http://h?x=1", "http://a b"] {
            assert!(base(url).unwrap_err().to_string().contains("`upstream` has to be"), "{url}");
        }
    }

    #[test]
    fn keys_of_the_upstream_pass_and_ours_do_not() {
        let mut headers = HeaderMap::new();
        for name in ["authorization", "x-earmark-key", "host", "connection", "origin", "content-type"] {
            headers.insert(HeaderName::from_static(name), header::HeaderValue::from_static("x"));
        }
        let mut names: Vec<_> = passed(&headers).keys().map(|name| name.as_str().to_owned()).collect();
        names.sort();
        assert_eq!(names, ["authorization", "content-type"]);
    }
}
