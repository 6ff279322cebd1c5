//! Pages of the dashboard among as many requests: each is measured from the call to its last byte, as a browser that is
//! signed in gets it.

use std::time::{Duration, Instant};

use alloy::primitives::{Address, keccak256};
use anyhow::{Context, Result, ensure};
use causeway::env::system_env;
use causeway::service::Service;
use store::sessions::{self, Session};

use super::report::Measured;
use super::{ListArgs, Size};
use crate::client::{Client, get_with};
use crate::stats::{Latency, nanos};

/// Calls per page and size. An account has 240 pages a minute.
const SAMPLES: usize = 17;
const WARM_UP: usize = 3;
/// The most that a browser gets for a page: its markup, style, icon and scripts, none of them compressed or kept.
const MAX_PAGE_BYTES: usize = 100 * 1024;
const ASSETS: &str = "/dashboard/assets/";
const TOKEN: &str = "session-of-the-benchmark";

/// Opens a session for an account, and returns the header that continues it.
pub(super) async fn sign_in(service: &Service, account: Address) -> Result<String> {
    let now = (system_env().clock)();
    let session = Session {
        token_hash: keccak256(TOKEN),
        account,
        nonce: "bench".to_owned(),
        created_at: now,
        expires_at: now.plus(Duration::from_secs(12 * 3_600)),
    };
    ensure!(service.solver.store.write(move |tx| sessions::open(tx, &session)).await?, "a session is open already");
    Ok(format!("cookie: causeway_session={TOKEN}"))
}

/// Names and addresses of the pages. Each size has requests of its own.
fn pages(size: &Size) -> [(&'static str, String); 10] {
    let key = size.rows.own_key();
    let newest = (0..size.count).rev().map(|n| size.rows.row(n)).find(|row| row.key.as_deref() == Some(key));
    let request = newest.map(|row| row.id.to_string()).unwrap_or_default();
    [
        ("page: overview", "/dashboard".to_owned()),
        ("page: requests", "/dashboard/requests".to_owned()),
        ("page: requests, refunds", "/dashboard/requests?status=refund".to_owned()),
        ("page: a request", format!("/dashboard/requests/{request}")),
        ("page: transfer", "/dashboard/transfer".to_owned()),
        ("page: keys", "/dashboard/keys".to_owned()),
        ("page: a key", format!("/dashboard/keys/{key}")),
        ("page: webhooks", format!("/dashboard/keys/{key}/webhooks")),
        ("page: balance", "/dashboard/balance".to_owned()),
        ("page: operator", "/dashboard/operator".to_owned()),
    ]
}

/// Names between two texts, each once.
fn named(text: &str, before: &str, after: char) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for part in text.split(before).skip(1) {
        if let Some((name, _)) = part.split_once(after)
            && !names.iter().any(|known| known == name)
        {
            names.push(name.to_owned());
        }
    }
    names
}

/// Bytes of the files that a page asks for, and of those that its scripts ask for in turn.
async fn asset_bytes(client: &mut Client, page: &str) -> Result<usize> {
    let (mut names, mut at, mut bytes) = (named(page, ASSETS, '"'), 0, 0);
    while let Some(name) = names.get(at) {
        let content = client.send(&get_with("accept: */*", &format!("{ASSETS}{name}"))).await?;
        bytes += content.len();
        let asked = named(std::str::from_utf8(content)?, "from './", '\'');
        let fresh: Vec<String> = asked.into_iter().filter(|name| !names.contains(name)).collect();
        names.extend(fresh);
        at += 1;
    }
    ensure!(at >= 3, "a page without style and scripts");
    Ok(bytes)
}

pub(super) async fn measure(sizes: &[Size], args: &ListArgs) -> Result<Vec<Measured>> {
    let of_sizes: Vec<_> = sizes.iter().map(pages).collect();
    let mut clients = Vec::new();
    for size in sizes {
        clients.push(Client::connect(size.service.address).await?);
    }
    let mut all = Vec::new();
    for (at, (name, _)) in of_sizes.first().into_iter().flatten().enumerate() {
        if args.only.as_ref().is_some_and(|only| !name.contains(only)) {
            continue;
        }
        let mut nanos_of: Vec<Vec<u64>> = vec![Vec::new(); sizes.len()];
        for sample in 0..WARM_UP + SAMPLES {
            for (n, (size, client)) in sizes.iter().zip(&mut clients).enumerate() {
                let request = get_with(&size.session, &of_sizes[n][at].1);
                let began = Instant::now();
                let page = client.send(&request).await.with_context(|| (*name).to_owned())?;
                let took = nanos(began.elapsed());
                if sample >= WARM_UP {
                    nanos_of[n].push(took);
                    continue;
                }
                let page = std::str::from_utf8(page)?.to_owned();
                let bytes = page.len() + asset_bytes(client, &page).await?;
                ensure!(bytes <= MAX_PAGE_BYTES, "{name} has {bytes} bytes with its style and scripts");
            }
        }
        all.push(Measured { name, sizes: nanos_of.into_iter().map(Latency::of).collect() });
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_a_page_are_found_once() {
        let page = r#"<link href="/dashboard/assets/a.css"><script src="/dashboard/assets/b.js"></script>
            <script src="/dashboard/assets/b.js"></script>"#;
        assert_eq!(named(page, ASSETS, '"'), ["a.css", "b.js"]);
        assert_eq!(named("import { c } from './c.js';", "from './", '\''), ["c.js"]);
    }
}
