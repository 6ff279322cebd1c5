//! The frame of every page.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use maud::{DOCTYPE, Markup, html};

use crate::account::{Account, TOKEN_FIELD};
use crate::markup::short;

/// A finished page.
#[derive(Debug)]
pub(crate) struct Page(String);

impl IntoResponse for Page {
    fn into_response(self) -> Response {
        ([(header::CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"))], self.0).into_response()
    }
}

/// The parts of the dashboard, in the order of the menu.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Section {
    Overview,
    Transfer,
    Requests,
    Keys,
    Webhooks,
    Balance,
    Operator,
    /// Outside of the menu.
    None,
}

const MENU: [(Section, &str, &str); 7] = [
    (Section::Overview, "Overview", "/dashboard"),
    (Section::Transfer, "Transfer", "/dashboard/transfer"),
    (Section::Requests, "Requests", "/dashboard/requests"),
    (Section::Keys, "API keys", "/dashboard/keys"),
    (Section::Webhooks, "Webhooks", "/dashboard/webhooks"),
    (Section::Balance, "App balance", "/dashboard/balance"),
    (Section::Operator, "Operator", "/dashboard/operator"),
];

/// The lines of a section's icon, on sixteen by sixteen.
fn icon(section: Section) -> &'static str {
    match section {
        Section::Overview => "M2.5 13.5v-5m3.7 5v-11m3.6 11v-7m3.7 7v-3",
        Section::Transfer => "M2 5.5h11.5L10.5 2.5M14 10.5H2.5l3 3",
        Section::Requests => "M2.5 4h11m-11 4h11m-11 4h7",
        Section::Keys => "M7.5 11a2.5 2.5 0 1 1-5 0a2.5 2.5 0 0 1 5 0zM6.8 9.2L13.5 2.5M10.5 5.5l2.2 2.2",
        Section::Webhooks => "M9 1.5L3.5 9H8l-1 5.5L12.5 7H8z",
        Section::Balance => "M2 5h11a1 1 0 0 1 1 1v7a1 1 0 0 1-1 1H3a1 1 0 0 1-1-1zm0 0l9-3v3m0 4.5h.5",
        Section::Operator => "M8 1.5l5.5 2V8c0 3-2.5 5-5.5 6.5C5 13 2.5 11 2.5 8V3.5z",
        Section::None => "",
    }
}

/// Where a file of ours is.
fn address(name: &str) -> String {
    format!("/dashboard/assets/{name}")
}

/// The page around a body.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Frame<'a> {
    pub title: &'a str,
    pub section: Section,
    pub account: Option<&'a Account>,
    /// Modules that the page needs, by the names of their files.
    pub scripts: &'a [&'static str],
    /// Scripts offer the test wallet.
    pub test_wallet: bool,
}

impl<'a> Frame<'a> {
    pub(crate) fn new(title: &'a str, section: Section, account: &'a Account) -> Self {
        let (scripts, test_wallet) = (&["live.js", "copy.js"], account.test_wallet);
        Self { title, section, account: Some(account), scripts, test_wallet }
    }

    pub(crate) fn with(self, scripts: &'a [&'static str]) -> Self {
        Self { scripts, ..self }
    }

    pub(crate) fn page(self, body: &Markup) -> Page {
        let markup = html! {
            (DOCTYPE)
            html lang="en" {
                head {
                    meta charset="utf-8";
                    meta name="viewport" content="width=device-width, initial-scale=1";
                    meta name="color-scheme" content="light dark";
                    @if self.test_wallet { meta name="test-wallet" content="yes"; }
                    @if let Some(account) = self.account {
                        meta name="form-token" content=(account.form_token);
                        meta name="account" content=(account.address.to_string());
                    }
                    title { (self.title) " · Causeway" }
                    link rel="icon" href=(address("icon.svg")) type="image/svg+xml";
                    link rel="stylesheet" href=(address("style.css"));
                    @for script in self.scripts {
                        script type="module" src=(address(script)) {}
                    }
                }
                body {
                    a.skip href="#main" { "Skip to the content" }
                    (self.top())
                    div.columns {
                        @if let Some(account) = self.account { (menu(self.section, account)) }
                        main #main tabindex="-1" {
                            div.head { h1 { (self.title) } }
                            (body)
                        }
                    }
                }
            }
        };
        Page(markup.into_string())
    }

    fn top(&self) -> Markup {
        html! {
            header.top {
                a.brand href="/dashboard" {
                    svg width="24" height="24" viewBox="0 0 24 24" aria-hidden="true" {
                        path d="M2 16c4 0 4-8 10-8s6 8 10 8" fill="none" stroke="currentColor" stroke-width="2.5"
                            stroke-linecap="round" {}
                        path d="M2 20h20" stroke="currentColor" stroke-width="2.5" stroke-linecap="round" {}
                    }
                    span { "Causeway" }
                }
                @if let Some(account) = self.account {
                    form.who method="post" action="/dashboard/sign-out" {
                        (token(account))
                        span.address title=(account.address.to_string()) { (short(&account.address.to_string())) }
                        button.quiet type="submit" { "Sign out" }
                    }
                }
            }
        }
    }
}

fn menu(section: Section, account: &Account) -> Markup {
    let shown = MENU.iter().filter(|(it, ..)| *it != Section::Operator || account.operator);
    html! {
        nav.menu aria-label="Dashboard" {
            ul {
                @for (it, name, href) in shown {
                    li {
                        a href=(href) aria-current=[(*it == section).then_some("page")] {
                            svg.icon width="16" height="16" viewBox="0 0 16 16" aria-hidden="true" {
                                path d=(icon(*it)) {}
                            }
                            (name)
                        }
                    }
                }
            }
        }
    }
}

/// The hidden member that makes a form one of ours.
pub(crate) fn token(account: &Account) -> Markup {
    html! { input type="hidden" name=(TOKEN_FIELD) value=(account.form_token); }
}

/// A page that says why there is no other.
pub(crate) fn problem(status: StatusCode, message: &str) -> Page {
    let title = match status {
        StatusCode::NOT_FOUND => "Not found",
        StatusCode::FORBIDDEN => "Not allowed",
        status if status.is_server_error() => "Our mistake",
        _ => "That did not work",
    };
    let frame = Frame { title, section: Section::None, account: None, scripts: &[], test_wallet: false };
    frame.page(&html! {
        div.notice.bad[status != StatusCode::NOT_FOUND] role="alert" { p { (message) } }
        p { a.button href="/dashboard" { "Go to the overview" } }
    })
}
