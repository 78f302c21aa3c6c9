//! The man page, from the flag table.
//!
//! Plain `man` macros; what the fields of the configuration file mean is in `docs/configuration.md`.

use std::fmt::Write;

use super::flags;
use super::help::shown_default;
use super::version;

/// The page in roff, for a program of this name.
pub fn page(program: &str) -> String {
    let mut text = format!(
        ".TH {} 8 \"\" \"Ferrule {}\" \"System Administration\"\n.SH NAME\n{program} \\- serve Kubernetes Services on a node\n\
         .SH SYNOPSIS\n.B {program}\n[\\fIflags\\fR]\n.SH DESCRIPTION\n\
         Watches Services and EndpointSlices and has the kernel of this node send their traffic to the right pods.\n\
         Takes the flags and the configuration file of kube\\-proxy {}.\n.SH OPTIONS\n",
        program.to_uppercase(),
        version::FERRULE,
        version::KUBERNETES.tag()
    );
    for flag in flags::all().into_iter().filter(|flag| flag.is_shown()) {
        let short = flag.short.map(|letter| format!("\\fB\\-{letter}\\fR, ")).unwrap_or_default();
        let value = match flag.value_word() {
            "" => String::new(),
            word => format!(" \\fI{}\\fR", escaped(word)),
        };
        let doc = escaped(&format!("{}{}", flag.doc, shown_default(flag)));
        // Writing to a String cannot fail.
        let _ = writeln!(text, ".TP\n{short}\\fB\\-\\-{}\\fR{value}\n{doc}", escaped(flag.name));
    }
    text.push_str(EXIT_STATUS);
    text
}

const EXIT_STATUS: &str = ".SH EXIT STATUS\n0 after \\-\\-help, \\-\\-version, \\-\\-write\\-config\\-to, \
     \\-\\-cleanup and \\-\\-init\\-only; 1 after any error.\n";

/// Dashes as the letters they are, and no line that starts like a macro.
fn escaped(text: &str) -> String {
    let text = text.replace('\\', "\\\\").replace('-', "\\-");
    if text.starts_with(['.', '\'']) { format!("\\&{text}") } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_has_every_shown_flag() {
        let text = page("ferrule");
        for flag in flags::all().into_iter().filter(|flag| flag.is_shown()) {
            assert!(
                text.contains(&format!("\\fB\\-\\-{}\\fR", flag.name.replace('-', "\\-"))),
                "{}",
                flag.name
            );
        }
        assert!(text.starts_with(".TH FERRULE 8"));
    }
}
