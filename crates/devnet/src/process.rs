//! Child processes that never outlive us, whatever ends us (`kill -9` included), without `unsafe`.
//!
//! Each child runs under a tiny shell that also holds the read end of a pipe from us. The kernel closes our end
//! however we die; the shell sees the end of input and kills the child. A line on the pipe is a signal to pass on.
//! Shell and child have a process group of their own, so Ctrl-C in a terminal reaches us first and we stop in order.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
pub use nix::sys::signal::Signal;
use nix::sys::signal::killpg;
use nix::unistd::Pid;

const WATCHDOG: &str = r#"
exec 3<&0 </dev/null
remove=$1
last=$2
shift 2
"$@" 3<&- &
child=$!
{
    while read -r signal <&3; do kill -s "$signal" "$child"; done
    # They are gone. From here on the shell cannot end us before we have said so.
    trap '' TERM
    kill -s "$last" "$child"
    exit 77
} 2>/dev/null &
watcher=$!
exec 3<&-
wait "$child"
code=$?
kill -s TERM "$watcher" 2>/dev/null
wait "$watcher" 2>/dev/null
if [ $? -eq 77 ] && [ -n "$remove" ]; then
    # The child may have children that take a moment longer to end.
    for _ in 1 2 3; do rm -rf -- "$remove" 2>/dev/null && break; sleep 1; done
fi
exit "$code"
"#;

/// The program to run.
#[derive(Debug)]
pub struct Program<'a> {
    pub name: String,
    pub path: &'a Path,
    pub args: Vec<OsString>,
    /// The folder it runs in, which also holds its output as a file.
    pub dir: &'a Path,
    /// If we are killed, the folder is removed once the program has ended.
    pub dir_is_temporary: bool,
    /// The signal that ends it at once when we are gone.
    pub last_signal: Signal,
}

#[derive(Debug)]
pub struct Process {
    name: String,
    shell: Child,
    /// Held open for as long as the child may live.
    pipe: Option<ChildStdin>,
    log: PathBuf,
}

impl Process {
    pub fn start(program: Program<'_>) -> Result<Self> {
        let Program { name, path, args, dir, dir_is_temporary, last_signal } = program;
        let log = dir.join(format!("{}.log", name.replace(' ', "-")));
        let out = File::create(&log).with_context(|| format!("cannot write {}", log.display()))?;
        let remove = if dir_is_temporary { dir.as_os_str() } else { OsStr::new("") };
        let mut command = Command::new("sh");
        command.args(["-c", WATCHDOG, "watchdog"]).arg(remove).arg(plain(last_signal)).arg(path).args(args);
        command.current_dir(dir);
        command.stdin(Stdio::piped()).stdout(out.try_clone()?).stderr(out).process_group(0);
        let mut shell = command.spawn().with_context(|| format!("cannot start {name}"))?;
        let pipe = shell.stdin.take();
        Ok(Self { name, shell, pipe, log })
    }

    /// The id of the program itself, which the shell has started; none where the system does not say, or when it is
    /// gone.
    pub fn id(&self) -> Option<u32> {
        let shell = self.shell.id();
        let children = fs::read_to_string(format!("/proc/{shell}/task/{shell}/children")).ok()?;
        let name = |id: &u32| fs::read_to_string(format!("/proc/{id}/comm")).unwrap_or_default();
        // The other child is the shell that watches over it.
        children.split_ascii_whitespace().filter_map(|id| id.parse().ok()).find(|id| name(id).trim() != "sh")
    }

    /// Fails with the end of the child's output once it has ended.
    pub fn check(&mut self) -> Result<()> {
        match self.shell.try_wait()? {
            None => Ok(()),
            Some(status) => bail!("{} ended early ({status}):\n{}", self.name, self.output()),
        }
    }

    pub fn output(&self) -> String {
        let text = fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(20)..].join("\n")
    }

    /// Asks the child to end and waits for it; kills it if it does not within `patience`.
    pub async fn stop(mut self, signal: Signal, patience: Duration) -> Result<ExitStatus> {
        if let Some(pipe) = &mut self.pipe {
            // A failed write means the shell is gone already: waiting tells how.
            drop(writeln!(pipe, "{}", plain(signal)));
        }
        let ended = async {
            loop {
                match self.shell.try_wait() {
                    Ok(None) => tokio::time::sleep(Duration::from_millis(5)).await,
                    Ok(Some(status)) => return Ok(status),
                    Err(e) => return Err(e),
                }
            }
        };
        match tokio::time::timeout(patience, ended).await {
            Ok(status) => Ok(status?),
            Err(_) => bail!("{} did not stop within {patience:?}; killed it", self.name),
        }
    }
}

/// The name of a signal as a shell wants it.
fn plain(signal: Signal) -> &'static str {
    signal.as_str().trim_start_matches("SIG")
}

impl Drop for Process {
    /// The shell acts as if we had died, and reaps the child: not every container has an init that would.
    fn drop(&mut self) {
        drop(self.pipe.take());
        for _ in 0..5_000 {
            match self.shell.try_wait() {
                Ok(None) => std::thread::sleep(Duration::from_millis(1)),
                Ok(Some(_)) | Err(_) => return,
            }
        }
        // The shell is not reaped yet, so its id cannot have been given to another process.
        let _ = killpg(Pid::from_raw(self.shell.id().cast_signed()), Signal::SIGKILL);
        drop(self.shell.wait());
    }
}
