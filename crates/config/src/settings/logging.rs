//! The logging part of the settings, whose problems carry the path `logging`.

use super::{Collector, InfoStream, LogFormat, LoggingSettings};
use crate::config::v1alpha1::{Logging, OutputOptions, VModuleItem};
use crate::gates::Gates;

/// Checks and resolves `logging`.
pub(super) fn resolve(logging: &Logging, gates: &Gates, problems: &mut Collector) -> LoggingSettings {
    let every = logging.flush_frequency.every;
    if every.as_nanoseconds() <= 0 {
        problems.invalid("logging.flushFrequency", &every, "must be greater than 0");
    }
    if i32::try_from(logging.verbosity).is_err() {
        problems.invalid("logging.verbosity", &logging.verbosity, &format!("must be at most {}", i32::MAX));
    }
    let format = format(logging, gates, problems);
    check_vmodule(logging, format, problems);
    check_alpha(&logging.text, "text", gates, problems);
    check_alpha(&logging.json, "json", gates, problems);
    LoggingSettings {
        format,
        verbosity: logging.verbosity,
        vmodule: logging.vmodule.iter().map(|item| (item.file_pattern.clone(), item.verbosity)).collect(),
        flush_every: every.to_std(),
        info_stream: info_stream(match format {
            LogFormat::Text => &logging.text,
            LogFormat::Json => &logging.json,
        }),
    }
}

fn format(logging: &Logging, gates: &Gates, problems: &mut Collector) -> LogFormat {
    match logging.format.as_str() {
        "text" => LogFormat::Text,
        "json" => {
            if !gates.is_on("LoggingBetaOptions") {
                problems.forbidden("logging.format", "json needs the feature gate LoggingBetaOptions");
            }
            LogFormat::Json
        }
        other => {
            problems.invalid("logging.format", other, "must be text or json");
            LogFormat::Text
        }
    }
}

fn check_vmodule(logging: &Logging, format: LogFormat, problems: &mut Collector) {
    if format == LogFormat::Json && !logging.vmodule.is_empty() {
        problems.forbidden("logging.vmodule", "only works with the text log format");
    }
    for (index, VModuleItem { file_pattern, verbosity }) in logging.vmodule.iter().enumerate() {
        let path = format!("logging.vmodule[{index}]");
        if file_pattern.is_empty() {
            problems.required(path.clone(), "a file pattern must not be empty");
        } else if file_pattern.contains(['=', ',']) {
            problems.invalid(
                path.clone(),
                file_pattern.as_str(),
                "a file pattern must not contain = or a comma",
            );
        }
        if i32::try_from(*verbosity).is_err() {
            problems.invalid(path, verbosity, &format!("must be at most {}", i32::MAX));
        }
    }
}

fn check_alpha(options: &OutputOptions, format: &str, gates: &Gates, problems: &mut Collector) {
    if gates.is_on("LoggingAlphaOptions") {
        return;
    }
    let reason = "needs the feature gate LoggingAlphaOptions";
    if options.split_stream {
        problems.forbidden(format!("logging.options.{format}.splitStream"), reason);
    }
    if !options.info_buffer_size.is_zero() {
        problems.forbidden(format!("logging.options.{format}.infoBufferSize"), reason);
    }
}

fn info_stream(options: &OutputOptions) -> InfoStream {
    // No use needs a larger one, and the memory is taken at once.
    const LARGEST_BUFFER: u64 = 64 << 20;
    if !options.split_stream {
        return InfoStream::Stderr;
    }
    let bytes = options.info_buffer_size.bytes().min(LARGEST_BUFFER);
    InfoStream::Stdout { buffer: usize::try_from(bytes).unwrap_or(0) }
}
