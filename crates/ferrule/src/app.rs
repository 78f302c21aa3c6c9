//! One run of the program, in kube-proxy's order: parse, answer `--help` and `--version`, complete, log, validate, act.
//!
//! Errors before logging is set up are plain lines; later ones are logged as `command failed`.

mod commands;
mod tools;

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use ferrule_backends::{Backend, BackendError, ModeChoice, Shadow, backend, cleanup};
use ferrule_config::cli::version::{self, Request};
use ferrule_config::cli::{self, CommandLine, flags, help};
use ferrule_config::go::escaped;
use ferrule_config::settings::{FlagOnly, Problems, Settings, ShadowSettings};
use ferrule_config::{CompleteError, Completed, complete, configz, encode, file};
use ferrule_kernel::sandbox::{SandboxError, capabilities};
use ferrule_kernel::sys;
use ferrule_watch::server::SecretUrl;
use tracing::{error, info, warn};

use crate::config_reload::LiveConfig;
use crate::descriptors;
use crate::host::{self, RealFiles};
use crate::logging::{self, LogHandle};
use crate::run::{self, Ended, Source, Start, StartError};
use crate::sandbox;
use ferrule_model::with_causes;

/// Why a run ended badly, after the command line was understood.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// Flags and file do not make a configuration.
    #[error("failed complete")]
    Complete(#[from] CompleteError),
    /// They make one that is wrong.
    #[error("failed validate")]
    Validate(#[source] Problems),
    /// What they say about logging is wrong, and nothing else.
    #[error("initialize logging")]
    Logging(#[source] Problems),
    /// The file for `--write-config-to` cannot be written.
    #[error("writing the configuration to {path:?}")]
    Write {
        /// The path given.
        path: String,
        /// The system's answer.
        #[source]
        source: io::Error,
    },
    /// Something could not be removed.
    #[error("error while tearing down")]
    Cleanup(#[source] Box<BackendError>),
    /// The configuration changed in a way that needs a new process, which the supervisor starts.
    #[error("the content of the configuration file was updated")]
    Restart,
    /// Rights could not be given up.
    #[error("giving up rights (--sandbox)")]
    Sandbox(#[from] SandboxError),
    /// The proxy could not be started.
    #[error("starting the proxy")]
    Start(#[source] Box<StartError>),
}

impl From<StartError> for Failure {
    fn from(error: StartError) -> Self {
        Self::Start(Box::new(error))
    }
}

impl From<Problems> for Failure {
    /// kube-proxy validates logging first, and says so.
    fn from(problems: Problems) -> Self {
        let about_logging = problems.0.iter().all(|problem| problem.path.starts_with("logging."));
        if about_logging { Self::Logging(problems) } else { Self::Validate(problems) }
    }
}

/// Runs the program under this name with these arguments.
pub fn run(program: &str, arguments: &[String]) -> ExitCode {
    let program =
        Path::new(program).file_name().map_or_else(|| program.into(), |name| name.to_string_lossy());
    if let Some((command, arguments)) = commands::asking(&program, arguments) {
        return tools::run(&program, command, arguments);
    }
    if let Some(answer) = commands::answer(&program, arguments) {
        return match answer {
            Ok(text) => print(&text),
            Err(problem) => complain(&problem),
        };
    }
    match cli::parse(arguments) {
        Ok(line) => with_command_line(&program, &line),
        Err(problem) => complain(&format!("{}\nError: {problem}", help::usage(&program))),
    }
}

fn with_command_line(program: &str, line: &CommandLine) -> ExitCode {
    for notice in &line.notices {
        complain(notice);
    }
    if line.help {
        return print(&help::long(program));
    }
    if line.positional.iter().any(|argument| !argument.is_empty()) {
        let hint = commands::hint(program, &line.positional);
        let refusal = format!("{program:?} does not take any arguments, got {:?}{hint}", line.positional);
        return complain(&format!("Error: {refusal}"));
    }
    match version::request(&line.text(flags::VERSION)) {
        Ok(Request::Short) => print(&format!("{}\n", version::short())),
        Ok(Request::Raw) => print(&format!("{}\n", version::raw())),
        Ok(Request::Run { .. }) | Err(_) => logged(program, line),
    }
}

fn logged(program: &str, line: &CommandLine) -> ExitCode {
    // Before the first thread is started, which is the log's.
    capabilities::raise_permitted();
    sys::limit_malloc_arenas();
    sys::resolve_names_without_plugins();
    let log = logging::install();
    let result = act(program, line, &log);
    if let Err(failure) = &result {
        error!(err = %with_causes(failure), "command failed");
    }
    log.flush();
    if result.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn act(program: &str, line: &CommandLine, log: &LogHandle) -> Result<(), Failure> {
    let mut content = None;
    let completed = complete(line, |path| {
        let bytes = file::read_at_start(path)?;
        content = Some(bytes.clone());
        Ok(bytes)
    })?;
    if !completed.strict_warnings.is_empty() {
        info!(err = %completed.strict_warnings.join("\n"), "Using lenient decoding as strict decoding failed");
    }
    // Before the rest is validated, so that its problems are logged in the form that was asked for.
    if let Ok(settings) = Settings::resolve_logging(&completed) {
        log.configure(&settings);
    }
    log_flags(line, &completed);
    log_warnings(&completed);
    let settings = Settings::resolve(&completed, &FlagOnly::from_command_line(line))?;
    let path = line.text(flags::WRITE_CONFIG_TO);
    if !path.is_empty() {
        let text = encode(&completed.effective.to_written());
        std::fs::write(&path, text).map_err(|source| Failure::Write { path: path.clone(), source })?;
        info!(file = path, "Wrote configuration");
        return Ok(());
    }
    if line.is_on(flags::CLEANUP) {
        return clean_up();
    }
    let mut backend = chosen_backend(&settings);
    if line.is_on(flags::INIT_ONLY) {
        host::tune(&settings, &mut RealFiles);
        return Ok(run::prepare_host(&mut *backend, &settings)?);
    }
    serve(Configured { program, line, completed, settings, content }, backend, log)
}

/// The backend of the settings' mode.
fn chosen_backend(settings: &Settings) -> Box<dyn Backend> {
    let mut backend = backend(settings.mode);
    backend.set_iptables_access(settings.iptables_access);
    match settings.shadow {
        Some(ShadowSettings { settle_time }) => Box::new(Shadow::of(backend, settle_time)),
        None => backend,
    }
}

/// Removes what every mode left.
fn clean_up() -> Result<(), Failure> {
    let (removed, result) = cleanup::remove_everything();
    run::log_removed(&removed);
    result.map_err(|error| Failure::Cleanup(Box::new(error)))?;
    info!("Cleaned up");
    Ok(())
}

/// What the program was asked to do, once all of it is valid.
struct Configured<'a> {
    /// The name it was called by.
    program: &'a str,
    line: &'a CommandLine,
    completed: Completed,
    settings: Settings,
    /// What the configuration file held when it was read, if there is one.
    content: Option<Vec<u8>>,
}

fn serve(configured: Configured<'_>, backend: Box<dyn Backend>, log: &LogHandle) -> Result<(), Failure> {
    let Configured { program, line, completed, settings, content } = configured;
    let source = match line.text(flags::MANIFESTS) {
        path if path.is_empty() => Source::Server { program: program.to_owned() },
        path => Source::Manifests(path.into()),
    };
    host::adjust_oom_score(settings.oom_score_adj, &mut RealFiles);
    let mut read = source.files(&settings);
    read.extend(Some(line.text(flags::CONFIG)).filter(|path| !path.is_empty()).map(PathBuf::from));
    descriptors::raise_hard_limit(backend.rights().descriptors);
    sandbox::enter(&settings, backend.rights(), &read)?;
    let watched = content.map(|content| LiveConfig::new(line, &completed, content));
    info!(version = version::short(), "Version info");
    let ended = run::run(Start {
        settings,
        backend,
        source,
        configuration: watched,
        configz: configz::page(&completed.effective.to_written()),
        flags: flags_with_values(line, &completed),
        mode_choice: if completed.mode_was_unset { ModeChoice::Default } else { ModeChoice::Explicit },
        log: log.clone(),
    })?;
    run::log_end(ended);
    match ended {
        Ended::Signal(_) => Ok(()),
        Ended::Restart => Err(Failure::Restart),
    }
}

/// All flags with their values at verbosity 1, as kube-proxy logs them and as tools grep for them.
fn log_flags(line: &CommandLine, completed: &Completed) {
    for (name, value) in flags_with_values(line, completed) {
        info!(target: logging::UNSTRUCTURED, v = 1, "FLAG: --{name}={value:?}");
    }
}

fn flags_with_values(line: &CommandLine, completed: &Completed) -> Vec<(String, String)> {
    let without_file = line.text(flags::CONFIG).is_empty();
    let value = |name: &str| match name {
        flags::PROXY_MODE if without_file => completed.effective.configuration.mode.text().to_owned(),
        flags::DETECT_LOCAL_MODE if without_file => {
            completed.effective.configuration.detect_local_mode.clone()
        }
        // It may hold a password or a token.
        flags::MASTER => SecretUrl::new(&line.text(name)).to_string(),
        name => line.text(name),
    };
    flags::all().into_iter().map(|flag| (flag.name.to_owned(), value(flag.name))).collect()
}

fn log_warnings(completed: &Completed) {
    for warning in &completed.gate_warnings {
        warn!(target: logging::UNSTRUCTURED, "{warning}");
    }
    let hidden = &completed.effective.configuration.show_hidden_metrics_for_version;
    if !hidden.is_empty() && *hidden != version::KUBERNETES.previous_minor() {
        warn!(
            version = hidden,
            "showHiddenMetricsForVersion is one release too old, hidden metrics are shown"
        );
    }
}

/// To stdout; a closed pipe is the reader's choice and no error.
fn print(text: &str) -> ExitCode {
    let _ = io::stdout().write_all(text.as_bytes());
    ExitCode::SUCCESS
}

/// To stderr, as one line or more. What was typed may be in it, and a terminal must not act on it.
fn complain(text: &str) -> ExitCode {
    let _ = writeln!(io::stderr(), "{}", escaped(text, &['\n', '\t']));
    ExitCode::FAILURE
}
