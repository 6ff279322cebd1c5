//! Saved views: filters of the requests page, kept under a name.

use axum::extract::State;
use axum::response::Redirect;
use maud::{Markup, html};
use store::saved_views::{self, MAX_VIEWS, SavedView};

use super::requests::Asked;
use crate::Dashboard;
use crate::account::Account;
use crate::failure::Failure;
use crate::guard::Fields;
use crate::layout::token;

const MAX_NAME: usize = 40;
/// The longest filters that are kept.
const MAX_QUERY: usize = 4 * 1024;
const LIST: &str = "/dashboard/requests";

fn address(query: &str) -> String {
    if query.is_empty() { LIST.to_owned() } else { format!("{LIST}?{query}") }
}

/// Links to the views, and a form that keeps the filters as they are shown.
pub(super) fn bar(account: &Account, asked: &Asked, views: &[SavedView]) -> Markup {
    let query = asked.query();
    let shown = views.iter().find(|view| view.query == query);
    html! {
        @if !views.is_empty() {
            nav aria-label="Saved views" {
                ul.tabs {
                    li { a href=(LIST) aria-current=[query.is_empty().then_some("true")] { "All" } }
                    @for view in views {
                        li {
                            a href=(address(&view.query)) aria-current=[(view.query == query).then_some("true")] {
                                (view.name)
                            }
                        }
                    }
                }
            }
        }
        @if let Some(view) = shown {
            form.row.view method="post" action="/dashboard/requests/views/delete" {
                (token(account))
                input type="hidden" name="name" value=(view.name);
                button.quiet type="submit" { "Delete the view " (view.name) }
            }
        } @else if !query.is_empty() {
            form.row.view method="post" action="/dashboard/requests/views" {
                (token(account))
                input type="hidden" name="query" value=(query);
                label for="view-name" { "Keep these filters as" }
                input #view-name name="name" required maxlength=(MAX_NAME) autocomplete="off";
                button.quiet type="submit" { "Save the view" }
            }
        }
    }
}

/// Keeps filters under a name. Only members that the page knows are kept.
pub(crate) async fn save(
    State(dashboard): State<Dashboard>,
    account: Account,
    fields: Fields,
) -> Result<Redirect, Failure> {
    let (name, query) = (fields.get("name").to_owned(), Asked::parse(Some(fields.get("query"))).query());
    if name.is_empty() || name.chars().count() > MAX_NAME || name.chars().any(char::is_control) {
        return Err(Failure::bad(format!("name: 1 to {MAX_NAME} characters")));
    }
    if query.is_empty() || query.len() > MAX_QUERY {
        return Err(Failure::bad("query: filters of the page, not too long"));
    }
    let (back, owner, now) = (address(&query), account.address, dashboard.now());
    let view = SavedView { name, query };
    if !dashboard.app.store.write(move |tx| saved_views::save(tx, owner, &view, now)).await? {
        return Err(Failure::bad(format!("An account has at most {MAX_VIEWS} views.")));
    }
    Ok(Redirect::to(&back))
}

pub(crate) async fn delete(
    State(dashboard): State<Dashboard>,
    account: Account,
    fields: Fields,
) -> Result<Redirect, Failure> {
    let (owner, name) = (account.address, fields.get("name").to_owned());
    dashboard.app.store.write(move |tx| saved_views::delete(tx, owner, &name)).await?;
    Ok(Redirect::to(LIST))
}
