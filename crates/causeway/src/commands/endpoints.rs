//! `causeway keys webhook`: shows, sets and deletes a webhook endpoint of a key.

use anyhow::{Context, Result, bail, ensure};
use domain::webhook::{EndpointName, Status};
use store::{Store, keys};
use webhooks::endpoints::{Change, EndpointError, View};

use crate::assemble;
use crate::cli::WebhookArgs;
use crate::config::Config;
use crate::env::system_env;

pub(super) async fn run(config: &Config, store: &Store, args: WebhookArgs) -> Result<()> {
    let (id, name) = (args.id, args.name.clone());
    let key = store.read(move |tx| keys::find(tx, id)).await?.with_context(|| format!("no key {id}"))?;
    ensure!(key.revoked_at.is_none(), "key {id} is revoked");
    let endpoints = assemble::webhooks::endpoints(config, store.clone(), system_env())?;
    if args.delete {
        endpoints.delete(id, &name).await?;
        println!("deleted {name}");
        return Ok(());
    }
    if args.test {
        println!("queued delivery {}", endpoints.test(id, &name).await?);
        return Ok(());
    }
    let view = match change(args) {
        Some(change) => endpoints.put(id, &name, change).await?,
        None => match endpoints.get(id, &name).await {
            Err(EndpointError::NotFound) => bail!("key {id} has no endpoint {name}: set one with --url"),
            found => found?,
        },
    };
    describe(&name, &view);
    Ok(())
}

/// None if nothing is to be changed.
fn change(args: WebhookArgs) -> Option<Change> {
    let headers = (args.no_headers || !args.headers.is_empty()).then_some(args.headers);
    let statuses = (args.all_statuses || !args.statuses.is_empty()).then_some(args.statuses);
    let changes = args.url.is_some() || args.enabled.is_some() || headers.is_some() || statuses.is_some();
    changes.then_some(Change { url: args.url, enabled: args.enabled, headers, statuses })
}

fn describe(name: &EndpointName, view: &View) {
    let statuses: Vec<_> = view.statuses.statuses().iter().copied().map(Status::as_str).collect();
    println!("name      {name}");
    println!("url       {}", view.url.as_deref().unwrap_or("not allowed any more: set it again"));
    println!("enabled   {}{}", view.enabled, why(view));
    println!("headers   {}", if view.header_names.is_empty() { "-".to_owned() } else { view.header_names.join(", ") });
    println!("statuses  {}", if statuses.is_empty() { "all".to_owned() } else { statuses.join(", ") });
}

fn why(view: &View) -> String {
    view.disabled_because.as_ref().map(|why| format!("  ({why})")).unwrap_or_default()
}
