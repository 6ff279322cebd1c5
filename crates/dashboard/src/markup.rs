//! Small pieces of markup that several pages use.

use domain::time::Timestamp;
use maud::{Markup, html};

use crate::times;

/// The beginning and the end of a long name.
pub(crate) fn short(text: &str) -> String {
    match (text.get(..8), text.get(text.len().saturating_sub(6)..)) {
        (Some(begin), Some(end)) if text.len() > 18 => format!("{begin}…{end}"),
        _ => text.to_owned(),
    }
}

/// A long name that is shown short and copied whole.
pub(crate) fn copied(text: &str) -> Markup {
    html! { span.copied { code title=(text) { (short(text)) } (copy_button(text)) } }
}

/// A long name that is shown and copied whole.
pub(crate) fn whole(text: &str) -> Markup {
    html! { span.copied.whole { code { (text) } (copy_button(text)) } }
}

fn copy_button(text: &str) -> Markup {
    html! {
        button.copy type="button" data-copy=(text) aria-label={ "Copy " (text) } title="Copy" hidden {
            svg width="14" height="14" viewBox="0 0 16 16" aria-hidden="true" {
                rect x="5.5" y="5.5" width="8.5" height="8.5" rx="1.5" {}
                path d="M10.5 3V2.5A1 1 0 0 0 9.5 1.5h-7A1 1 0 0 0 1.5 2.5v7a1 1 0 0 0 1 1H3" {}
            }
        }
    }
}

/// A sentence whose names stand in backticks.
pub(crate) fn coded(text: &str) -> Markup {
    html! {
        @for (index, part) in text.split('`').enumerate() {
            @if index % 2 == 1 { code { (part) } } @else { (part) }
        }
    }
}

/// A name of the interface, such as `MANUAL_ADMIN_REFUND` or `requests-v3`, as words.
pub(crate) fn words(name: &str) -> String {
    let spaced = name.to_lowercase().replace(['_', '-'], " ");
    let mut letters = spaced.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

/// The reason of a refund or a failure in words; the pointer shows its name in the interface.
pub(crate) fn reason(name: &str) -> Markup {
    html! { span title=(name) { (words(name)) } }
}

/// A status in its colour, which its word says too.
pub(crate) fn status(text: &str) -> Markup {
    let kind = match text {
        "success" | "delivered" | "ok" | "active" | "final" | "solvent" => "good",
        "failure" | "failed" | "down" | "revoked" | "short" => "bad",
        "refund" | "refunded" | "refunding" | "degraded" | "paused" => "warn",
        "pending" | "submitted" | "depositing" | "due" | "waiting" | "confirmed" | "sent" => "busy",
        _ => "neutral",
    };
    html! { span class={ "status " (kind) } { (text) } }
}

pub(crate) fn time(at: Timestamp) -> Markup {
    html! { time datetime=(times::iso(at)) title="in UTC" { (times::readable(at)) } }
}

/// A time as the service's answers write it, with or without its milliseconds.
pub(crate) fn time_in(text: &str) -> Markup {
    let whole = text.get(..19).map(|begin| format!("{begin}Z"));
    match whole.as_deref().and_then(times::parse_iso) {
        Some(at) => time(at),
        None => html! { (text) },
    }
}

/// A time in Unix milliseconds.
pub(crate) fn time_of(millis: Option<i64>) -> Markup {
    match millis {
        Some(millis) => time(Timestamp::from_millis(millis)),
        None => html! { span.faint { "–" } },
    }
}

/// A notice for a list that has nothing in it, and what to do about it.
pub(crate) fn empty(title: &str, hint: &Markup) -> Markup {
    html! { div.empty { p { strong { (title) } } p { (hint) } } }
}

/// A figure with its name.
pub(crate) fn figure(name: &str, value: &str, note: &str) -> Markup {
    html! {
        div.figure {
            dt { (name) }
            dd { (value) @if !note.is_empty() { small { (note) } } }
        }
    }
}

/// The outcome of the form that led here, by its name in the address: only words of our own are shown.
pub(crate) fn done(name: Option<&str>) -> Markup {
    let text = match name {
        Some("renamed") => "The key has its new name.",
        Some("revoked") => "The key is revoked. It is refused within seconds.",
        Some("saved") => "The endpoint is saved.",
        Some("deleted") => "The endpoint is deleted.",
        Some("tested") => "A test event is on its way; its attempt appears below.",
        Some("replayed") => "The delivery is due again.",
        Some("refunded") => "The request is being refunded.",
        Some("paused") => "The chain is paused. Every process knows of it within seconds.",
        Some("resumed") => "The chain is not paused any more.",
        Some("topped-up") => "The worker will fill the wallets up.",
        _ => return html! {},
    };
    html! { div.notice.good role="status" { p { (text) } } }
}

/// One member of a form: a label, its control, and a hint.
pub(crate) fn field(name: &str, label: &str, hint: &str, control: &Markup) -> Markup {
    html! {
        div.field {
            label for=(name) { (label) }
            (control)
            @if !hint.is_empty() { small { (hint) } }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_name_keeps_its_ends() {
        assert_eq!(short("0x1234567890abcdef1234"), "0x123456…ef1234");
        assert_eq!(short("short"), "short");
        // A name that cannot be cut there is shown whole.
        assert_eq!(short("aééééééééééééééé"), "aééééééééééééééé");
    }

    #[test]
    fn a_time_of_an_answer_is_readable() {
        let shown = time_in("2026-09-21T14:13:21.000Z").into_string();
        assert!(shown.contains("21 Sep 2026, 14:13:21") && shown.contains("2026-09-21T14:13:21Z"), "{shown}");
        assert_eq!(time_in("<b>").into_string(), "&lt;b&gt;");
    }

    #[test]
    fn a_name_of_the_interface_is_read_as_words() {
        assert_eq!(words("MANUAL_ADMIN_REFUND"), "Manual admin refund");
        assert_eq!((words("requests-v3").as_str(), words("").as_str()), ("Requests v3", ""));
        assert_eq!(reason("A_<b>").into_string(), "<span title=\"A_&lt;b&gt;\">A &lt;b&gt;</span>");
    }

    #[test]
    fn names_in_backticks_are_code() {
        assert_eq!(coded("run `a b`, then `c`").into_string(), "run <code>a b</code>, then <code>c</code>");
        assert_eq!(coded("<b>").into_string(), "&lt;b&gt;");
    }

    #[test]
    fn names_of_others_are_escaped() {
        let shown = copied("<script>alert(1)</script>").into_string();
        assert!(!shown.contains("<script>"), "{shown}");
        assert!(done(Some("<b>")).into_string().is_empty());
    }
}
