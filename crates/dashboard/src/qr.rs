//! QR codes as SVG, drawn on the server: a phone reads an address that nobody should have to type.

use std::fmt::Write;

use maud::{Markup, html};
use qrcode::{Color, EcLevel, QrCode};

/// Light modules that readers need around a code.
const QUIET: usize = 4;

/// The code of a short text, black on white in every look: readers expect it so. None where the text is too long.
pub(crate) fn code(name: &str, text: &str) -> Option<Markup> {
    let code = QrCode::with_error_correction_level(text, EcLevel::M).ok()?;
    let width = code.width();
    let size = width.saturating_add(2 * QUIET);
    let path = dark(&code.into_colors(), width);
    Some(html! {
        svg.qr viewBox={ "0 0 " (size) " " (size) } role="img" aria-label=(name) shape-rendering="crispEdges"
            data-text=(text) {
            rect width=(size) height=(size) fill="#ffffff" {}
            path d=(path) fill="#000000" {}
        }
    })
}

/// The dark modules as one path, a strip for each run of a row.
fn dark(modules: &[Color], width: usize) -> String {
    let mut path = String::new();
    for (row, line) in modules.chunks(width.max(1)).enumerate() {
        let mut at = 0;
        for run in line.chunk_by(|one, next| one == next) {
            if run.first() == Some(&Color::Dark) {
                let (x, y, length) = (at + QUIET, row + QUIET, run.len());
                // Writing to a string cannot fail.
                let _ = write!(path, "M{x} {y}h{length}v1h-{length}z");
            }
            at += run.len();
        }
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    const ADDRESS: &str = "0x5FbDB2315678afecb367f032d93F642f64180aa3";

    #[test]
    fn an_address_is_drawn_with_its_three_corners() {
        let shown = code("The address", ADDRESS).unwrap().into_string();
        // 42 characters fit version 3: 29 modules, and four light ones on every side.
        assert!(shown.contains("viewBox=\"0 0 37 37\"") && shown.contains(ADDRESS), "{shown}");
        for corner in ["M4 4h7v1", "M26 4h7v1", "M4 26h7v1"] {
            assert!(shown.contains(corner), "no finder at {corner}: {shown}");
        }
        assert!(!shown.contains("style="), "the policy allows nothing inline: {shown}");
    }

    #[test]
    fn runs_of_a_row_are_strips() {
        use Color::{Dark, Light};
        assert_eq!(dark(&[Dark, Dark, Light, Dark, Light, Light], 3), "M4 4h2v1h-2zM4 5h1v1h-1z");
    }

    #[test]
    fn a_text_that_does_not_fit_has_no_code() {
        assert!(code("too much", &"x".repeat(8_000)).is_none());
    }
}
