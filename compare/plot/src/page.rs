//! The page: contents, what was measured on what, glossary, charts, goals.

use crate::report::{Chart, slug};
use crate::row::Figures;
use crate::subject;
use crate::svg::escape;
use std::fmt::Write;

/// Text and ground are the browser's, light or dark. The charts bring their own.
const HEAD: &str = "<!doctype html>
<html lang=\"en\"><meta charset=\"utf-8\">
<meta name=\"viewport\" content=\"width=device-width\">
<title>wheelwork and its rivals</title>
<style>
:root { color-scheme: light dark }
body { font: 15px/1.5 sans-serif; max-width: 880px; margin: 2em auto; padding: 0 1em }
svg { display: block; max-width: 100%; height: auto; margin: .8em 0 .2em; border-radius: 6px }
h2 { margin: 1.6em 0 .2em; font-size: 1.2em }
table { border-collapse: collapse }
td, th { padding: .1em .8em .1em 0; text-align: left; vertical-align: top }
i { display: inline-block; width: 1em; height: 1em; border: 1px solid white; border-radius: 3px }
</style>
<h1>wheelwork and its rivals</h1>
<p>Bars are medians; the line in a bar goes from the least repetition to the most. Each subject has
one color. Those of wheelwork are green.
";

/// A version, or a date, that the figures do not tell.
const UNKNOWN: &str = "not recorded";

pub(crate) fn page(figures: &Figures, charts: &[Chart]) -> String {
    let mut page = HEAD.to_string();
    contents(&mut page, figures, charts);
    measured(&mut page, figures);
    subjects(&mut page, figures);
    let mut section = "";
    for chart in charts {
        if chart.section != section {
            section = &chart.section;
            title(&mut page, section);
        }
        page += &chart.svg;
        for (subject, remark) in &chart.remarks {
            let _ = writeln!(page, "<div>{}: {}</div>", escape(subject), escape(remark));
        }
    }
    if !figures.goals.is_empty() {
        title(&mut page, GOALS);
        table(&mut page, &["goal", "verdict"], &figures.goals, |goal| {
            vec![escape(&goal.0), escape(&goal.1)]
        });
    }
    page + "</html>\n"
}

const MEASURED: &str = "What was measured";
const SUBJECTS: &str = "Subjects";
const GOALS: &str = "Distance to the goals";

/// A link to each section.
fn contents(page: &mut String, figures: &Figures, charts: &[Chart]) {
    let mut titles = vec![MEASURED, SUBJECTS];
    titles.extend(charts.iter().map(|chart| chart.section.as_str()));
    titles.dedup();
    if !figures.goals.is_empty() {
        titles.push(GOALS);
    }
    *page += "<h2>Contents</h2>\n<ul>\n";
    for title in titles {
        let _ = writeln!(
            page,
            "<li><a href=\"#{}\">{}</a>",
            slug(title),
            escape(title)
        );
    }
    *page += "</ul>\n";
}

fn title(page: &mut String, title: &str) {
    let _ = writeln!(page, "<h2 id=\"{}\">{}</h2>", slug(title), escape(title));
}

/// The machine, the date, the versions.
fn measured(page: &mut String, figures: &Figures) {
    title(page, MEASURED);
    let date = figures.date.as_deref().unwrap_or(UNKNOWN);
    let mut rows = vec![
        ("machine".to_string(), figures.machine.clone()),
        ("date".to_string(), date.to_string()),
    ];
    rows.extend(figures.versions.iter().cloned());
    // What is measured, and what the figures do not say the version of.
    let packages = names(figures).into_iter().flat_map(subject::packages);
    for package in packages {
        if !rows.iter().any(|(name, _)| name == package) {
            rows.push((package.to_string(), UNKNOWN.to_string()));
        }
    }
    table(page, &["", "as recorded"], &rows, |row| {
        vec![escape(&row.0), escape(&row.1)]
    });
}

/// The glossary: those that were measured.
fn subjects(page: &mut String, figures: &Figures) {
    title(page, SUBJECTS);
    let columns = ["", "name", "what it is", "made of"];
    table(page, &columns, &names(figures), |name| {
        vec![
            format!("<i style=\"background:{}\"></i>", subject::look(name).color),
            escape(name),
            subject::what(name).to_string(),
            subject::packages(name).join(", "),
        ]
    });
}

/// The subjects that have figures, each once.
fn names(figures: &Figures) -> Vec<&str> {
    let mut names: Vec<&str> = Vec::new();
    for row in &figures.rows {
        if !names.contains(&row.subject.as_str()) {
            names.push(&row.subject);
        }
    }
    names.sort_by_key(|name| subject::place(name));
    names
}

fn table<T>(page: &mut String, head: &[&str], rows: &[T], cells: impl Fn(&T) -> Vec<String>) {
    let _ = writeln!(page, "<table>\n<tr><th>{}", head.join("<th>"));
    for row in rows {
        let _ = writeln!(page, "<tr><td>{}", cells(row).join("<td>"));
    }
    *page += "</table>\n";
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{report, row};

    const LINES: &str = r#"{"machine":"1 < 2 cores\nwheelwork 0.1.0; tokio 1.2.3","date":"2001-02-03"}
{"subject":"wheelwork","workload":"w2","threads":1,"n":1000,"reps":1,"mops":5,"mops_min":5,"mops_max":5}
{"subject":"netty","workload":"w2","threads":1,"n":1000,"reps":1,"mops":2,"mops_min":2,"mops_max":2,"remark":"a & b"}
{"subject":"netty","workload":"w2","threads":1,"n":2000,"reps":1,"mops":2,"mops_min":2,"mops_max":2}
{"goal":"w2 <= 9","verdict":"holds: 7"}"#;

    fn page_of(lines: &str) -> String {
        let figures = row::read(lines).expect("they are right");
        page(&figures, &report::charts(&figures.rows))
    }

    #[test]
    fn a_page_has_contents_and_a_glossary() {
        let page = page_of(LINES);
        for text in [
            "<li><a href=\"#w2-arm-cancel-at-once\">W2: arm, cancel at once</a>\n",
            "<li><a href=\"#distance-to-the-goals\">",
            "<h2 id=\"w2-arm-cancel-at-once\">",
            "<td>netty<td>Netty's HashedWheelTimer, with a tick of 1 ms<td>netty, jvm\n",
            "<div>netty: a &amp; b</div>\n",
            "<tr><td>w2 &lt;= 9<td>holds: 7\n",
        ] {
            assert_eq!(page.matches(text).count(), 1, "{text} in {page}");
        }
        assert_eq!(page.matches("<svg").count(), 2, "{page}");
        assert!(!page.contains("<td>heap"), "{page}");
    }

    #[test]
    fn a_page_has_the_versions_and_says_which_are_unknown() {
        let page = page_of(LINES);
        for text in [
            "<td>machine<td>1 &lt; 2 cores\n",
            "<td>date<td>2001-02-03\n",
            "<td>tokio<td>1.2.3\n",
            "<td>jvm<td>not recorded\n",
        ] {
            assert_eq!(page.matches(text).count(), 1, "{text} in {page}");
        }
        let without = LINES.replace(",\"date\":\"2001-02-03\"", "");
        assert!(page_of(&without).contains("<td>date<td>not recorded\n"));
    }
}
