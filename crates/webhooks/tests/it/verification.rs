//! The samples of `docs/webhooks.md` verify real deliveries: those in Rust, Node.js and Python, as they are printed.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use domain::request::State;
use serde_json::json;

use crate::receiver::{Received, Receiver};
use crate::verify_example;
use crate::world::{World, eventually, hasty, text};

const PAGE: &str = include_str!("../../../../docs/webhooks.md");
const RUST: &str = include_str!("verify_example.rs");

/// The first block of code in a language.
fn sample(language: &str) -> Result<&'static str> {
    let (_, rest) = PAGE.split_once(&format!("```{language}\n")).with_context(|| format!("no sample in {language}"))?;
    Ok(rest.split_once("```").context("the end of the sample")?.0)
}

/// Runs a script and returns its last line.
fn run(program: &str, script: &Path, input: &str) -> Result<String> {
    let mut command = Command::new(program);
    command.arg(script).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().with_context(|| format!("{program} is needed to run the samples"))?;
    child.stdin.take().context("stdin")?.write_all(input.as_bytes())?;
    let output = child.wait_with_output()?;
    ensure!(output.status.success(), "{program}: {}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8(output.stdout)?.trim().to_owned())
}

const NODE_HARNESS: &str = "
import { verify } from './sample.mjs'
import { readFileSync } from 'node:fs'
const cases = JSON.parse(readFileSync(0, 'utf8'))
console.log(cases.map((it) => verify(it.headers, Buffer.from(it.body, 'utf8'), it.keys) ? 'y' : 'n').join(''))
";

const PYTHON_HARNESS: &str = "
import json, sys
from sample import verify
cases = json.load(sys.stdin)
print(''.join('y' if verify(it['headers'], it['body'].encode(), it['keys']) else 'n' for it in cases))
";

fn headers(it: &Received) -> serde_json::Map<String, serde_json::Value> {
    let pair = |(name, value): (&axum::http::HeaderName, &axum::http::HeaderValue)| {
        (name.as_str().to_owned(), json!(value.to_str().unwrap()))
    };
    it.headers.iter().map(pair).collect()
}

#[tokio::test]
async fn the_samples_accept_real_events_and_refuse_others() -> Result<()> {
    let world = World::sqlite().await?;
    let receiver = Receiver::good().await;
    world.endpoint("default", &receiver.url).await?;
    let order = world.request(1).await?;
    let process = world.deliver("a", hasty()).await?;
    world.publish(order, State::Pending).await?;
    eventually("the first arrives", async || Ok(receiver.count() >= 1)).await?;
    let now = crate::world::clock();
    let ends = now.plus(std::time::Duration::from_secs(600));
    let unit = move |tx: &mut store::Tx<'_>| {
        store::keys::rotate(tx, crate::world::KEY, &crate::world::stored_text(2), ends, now)
    };
    ensure!(world.store.write(unit).await?);
    world.publish(order, State::Success).await?;
    eventually("the second arrives", async || Ok(receiver.count() >= 2)).await?;
    process.stop().await?;
    let received = receiver.received();
    let (old, new, wrong) = (text(1), text(2), text(9));
    let (old, new, wrong) = (old.expose(), new.expose(), wrong.expose());
    let mut stale = received[0].clone();
    stale.headers.insert("x-signature-timestamp", "1".parse()?);
    let mut changed = received[0].clone();
    changed.body = String::from_utf8(changed.body.to_vec())?.replace("pending", "success").into();
    let mut bare = received[0].clone();
    bare.headers.clear();
    // The event, the keys that the receiver knows, and whether it accepts.
    let cases = [
        (&received[0], vec![old], true),
        (&received[0], vec![new, old], true),
        (&received[0], vec![wrong], false),
        (&received[0], vec![], false),
        (&received[1], vec![new], true),
        (&received[1], vec![old], true),
        (&received[1], vec![wrong, old], true),
        (&received[1], vec![wrong], false),
        (&stale, vec![old], false),
        (&changed, vec![old], false),
        (&bare, vec![old], false),
    ];
    let expected: String = cases.iter().map(|(.., good)| if *good { 'y' } else { 'n' }).collect();
    let rust: String = cases
        .iter()
        .map(|(it, keys, _)| {
            let header = |name: &str| it.headers.get(name).and_then(|value| value.to_str().ok());
            if verify_example::verify(header, &it.body, keys) { 'y' } else { 'n' }
        })
        .collect();
    ensure!(rust == expected, "Rust: {rust}, not {expected}");
    ensure!(sample("rust")? == RUST, "the sample in Rust is not the one that was run");
    let input = json!(
        cases
            .iter()
            .map(|(it, keys, _)| {
                json!({ "headers": headers(it), "body": String::from_utf8_lossy(&it.body), "keys": keys })
            })
            .collect::<Vec<_>>()
    );
    let folder = tempfile::tempdir()?;
    for (language, program, file, harness, main) in [
        ("js", "node", "sample.mjs", NODE_HARNESS, "main.mjs"),
        ("python", "python3", "sample.py", PYTHON_HARNESS, "main.py"),
    ] {
        std::fs::write(folder.path().join(file), sample(language)?)?;
        std::fs::write(folder.path().join(main), harness)?;
        let answer = run(program, &folder.path().join(main), &input.to_string())?;
        ensure!(answer == expected, "{language}: {answer}, not {expected}");
    }
    Ok(())
}
