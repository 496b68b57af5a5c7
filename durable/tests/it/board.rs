//! Promise: the board `examples/grafana.json` of wheelwork shows the figures that a service has,
//! all of them and no others. Each metric and each label of its queries is in the text that
//! Prometheus scrapes, and each metric of that text is in a query.
//!
//! A query is looked at by its words, not parsed: the names that begin with `wheelwork_`, the
//! selectors in braces, and the labels of `by (..)`.

use metrics::with_local_recorder;
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::time::Duration;
use wheelwork::metrics::Reporter;
use wheelwork::{ManualClock, TimerService};
use wheelwork_durable::{Durable, DurableReporter, Memory};

const MS: Duration = Duration::from_millis(1);

/// A metric of a page: its type, and the labels of its series.
#[derive(Debug, Default)]
struct Metric {
    kind: String,
    labels: BTreeSet<String>,
}

type Page = BTreeMap<String, Metric>;

/// What the example's exporter shows of a service with two shards, and of durable timers, to which
/// a few things happened.
fn scraped() -> Page {
    let histograms = [
        "wheelwork_lateness_seconds",
        "wheelwork_durable_lateness_seconds",
        "wheelwork_durable_commit_seconds",
    ];
    let mut builder = PrometheusBuilder::new();
    for name in histograms {
        let name = Matcher::Full(name.to_string());
        builder = builder.set_buckets_for_metric(name, &[0.001, 0.1]).unwrap();
    }
    let recorder = builder.build_recorder();
    let exporter = recorder.handle();
    with_local_recorder(&recorder, || {
        let clock = ManualClock::new();
        let builder = TimerService::builder().clock(clock.clone()).shards(2);
        let service = builder.start().unwrap();
        for shard in 0..2 {
            let far = service.schedule_on(shard, MS * 5_000, || ()).unwrap();
            service.schedule_on(shard, MS, || ()).unwrap();
            assert!(service.cancel(far));
        }
        let durable = Durable::builder(Memory::new())
            .clock(clock.clone())
            .on("mail", |_| Ok(()))
            .start()
            .unwrap();
        durable.schedule("mail", MS, "hello").unwrap();
        clock.advance(MS * 2);
        Reporter::new(&service).service("requests").report();
        DurableReporter::new(&durable).service("orders").report();
    });
    page(&exporter.render())
}

/// The metrics of a page, by the names that a query has for them.
fn page(text: &str) -> Page {
    let mut page = Page::new();
    let kinds: BTreeMap<_, _> = text
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' '))
        .collect();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let Some((series, _)) = line.rsplit_once(' ') else {
            continue;
        };
        let (name, labels) = series.split_once('{').unwrap_or((series, ""));
        let metric = page.entry(name.to_string()).or_default();
        let of_it = |(kind, _): &(&&str, _)| {
            let rest = name.strip_prefix(**kind);
            rest.is_some_and(|rest| ["", "_bucket", "_count", "_sum"].contains(&rest))
        };
        let (_, kind) = kinds.iter().find(of_it).expect("each metric has a type");
        metric.kind = kind.to_string();
        metric.labels.extend(names_before(labels, "=\""));
    }
    page
}

/// The words that stand before a sign.
fn names_before<'a>(text: &'a str, sign: &'a str) -> impl Iterator<Item = String> + 'a {
    let before = text.match_indices(sign).map(|(at, _)| &text[..at]);
    before.map(|before| {
        let word = before.rsplit(|letter| !is_word(letter)).next();
        word.unwrap_or_default().to_string()
    })
}

fn is_word(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || letter == '_'
}

/// A metric that a query names.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Named<'a> {
    name: &'a str,
    /// The labels of its selector.
    labels: Vec<String>,
    /// Whether the query asks how fast it rises.
    is_rate: bool,
}

/// The metrics that a query names.
fn named(query: &str) -> Vec<Named<'_>> {
    let starts = query.match_indices("wheelwork_").map(|(at, _)| at);
    starts
        .map(|at| {
            let rest = &query[at..];
            let end = rest.find(|letter| !is_word(letter)).unwrap_or(rest.len());
            let (name, rest) = rest.split_at(end);
            let selector = rest
                .strip_prefix('{')
                .and_then(|rest| rest.split('}').next())
                .unwrap_or_default();
            let labels = ["=\"", "=~\"", "!=\"", "!~\""]
                .into_iter()
                .flat_map(|sign| names_before(selector, sign))
                .filter(|label| !label.is_empty())
                .collect();
            let before = &query[..at];
            Named {
                name,
                labels,
                is_rate: before.ends_with("rate(") || before.ends_with("increase("),
            }
        })
        .collect()
}

/// The labels by which a query sums, and those that `label_values` asks for.
fn grouped(query: &str) -> Vec<String> {
    let sums = query.split("by (").skip(1);
    let sums = sums.filter_map(|rest| rest.split(')').next());
    let values = query
        .strip_prefix("label_values(")
        .and_then(|rest| rest.strip_suffix(')')?.rsplit_once(','))
        .map(|(_, label)| label);
    let all = sums.chain(values).flat_map(|labels| labels.split(','));
    all.map(|label| label.trim().to_string()).collect()
}

/// What is wrong with a query, and with the legend of its series.
fn faults(query: &str, legend: &str, page: &Page) -> Vec<String> {
    let mut faults = Vec::new();
    let (named, grouped) = (named(query), grouped(query));
    if named.is_empty() {
        faults.push(format!("no metric: {query}"));
    }
    for Named {
        name,
        labels,
        is_rate,
    } in named
    {
        let Some(metric) = page.get(name) else {
            faults.push(format!("no {name}: {query}"));
            continue;
        };
        let missing = labels
            .iter()
            .chain(&grouped)
            .filter(|label| !metric.labels.contains(*label));
        faults.extend(missing.map(|label| format!("{name} has no {label}: {query}")));
        if is_rate == (metric.kind == "gauge") && !query.starts_with("label_values(") {
            faults.push(format!("{name} is a {}: {query}", metric.kind));
        }
    }
    let in_legend = legend.split("{{").skip(1);
    let in_legend = in_legend.filter_map(|rest| rest.split("}}").next());
    let unknown = in_legend.filter(|label| !grouped.contains(&label.to_string()));
    faults.extend(unknown.map(|label| format!("the legend has {label}: {query}")));
    faults
}

/// The metrics of a page that no query names. A histogram has several series; one is enough.
fn unshown(queries: &[&str], page: &Page) -> Vec<String> {
    let base = |name: &str| {
        let ends = ["_bucket", "_count", "_sum"];
        let is_of_histogram = page.get(name).is_some_and(|of| of.kind == "histogram");
        let base = ends.into_iter().find_map(|end| name.strip_suffix(end));
        base.filter(|_| is_of_histogram).unwrap_or(name).to_string()
    };
    let shown: BTreeSet<_> = queries.iter().flat_map(|query| named(query)).collect();
    let shown: BTreeSet<_> = shown.iter().map(|named| base(named.name)).collect();
    let all: BTreeSet<_> = page.keys().map(|name| base(name)).collect();
    all.difference(&shown).cloned().collect()
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_default()
}

fn list<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value[key].as_array().map_or(&[], Vec::as_slice)
}

/// The board, where wheelwork's folder is beside this one.
fn board() -> Option<Value> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/grafana.json");
    let text = fs::read_to_string(path).ok()?;
    Some(serde_json::from_str(&text).expect("the board is JSON"))
}

#[test]
fn each_query_asks_for_what_a_scrape_has() {
    let Some(board) = board() else { return };
    let page = scraped();
    assert!(page.len() > 30, "{page:?}");
    let targets = list(&board, "panels")
        .iter()
        .flat_map(|panel| list(panel, "targets"))
        .map(|target| (text(target, "expr"), text(target, "legendFormat")));
    let variables = list(&board["templating"], "list")
        .iter()
        .filter(|variable| text(variable, "type") == "query")
        .map(|variable| (text(&variable["query"], "query"), ""));
    let queries: Vec<_> = targets.chain(variables).collect();
    assert!(queries.len() > 30, "{}", queries.len());
    let faults: Vec<_> = queries
        .iter()
        .flat_map(|(query, legend)| faults(query, legend, &page))
        .collect();
    assert_eq!(faults, [""; 0]);
}

#[test]
fn each_figure_has_a_panel() {
    let Some(board) = board() else { return };
    let queries: Vec<_> = list(&board, "panels")
        .iter()
        .flat_map(|panel| list(panel, "targets"))
        .map(|target| text(target, "expr"))
        .collect();
    assert_eq!(unshown(&queries, &scraped()), [""; 0]);
}

#[test]
fn each_panel_says_what_it_shows_and_in_which_unit() {
    let Some(board) = board() else { return };
    let variables: Vec<_> = list(&board["templating"], "list")
        .iter()
        .map(|variable| text(variable, "name"))
        .collect();
    let mut ids = BTreeSet::new();
    for panel in list(&board, "panels") {
        let title = text(panel, "title");
        assert!(
            !title.is_empty() && ids.insert(panel["id"].as_u64()),
            "{title}"
        );
        let place = |key: &str| panel["gridPos"][key].as_u64().unwrap();
        assert!(place("x") + place("w") <= 24, "{title}");
        if text(panel, "type") == "row" {
            continue;
        }
        assert!(text(panel, "description").ends_with('.'), "{title}");
        let unit = text(&panel["fieldConfig"]["defaults"], "unit");
        for target in list(panel, "targets") {
            let query = text(target, "expr");
            let per_second = query.starts_with("sum") && query.contains(" (rate(");
            let expected = match query {
                _ if query.contains("_seconds") => "s",
                _ if query.contains("_bytes") => "bytes",
                _ if per_second => "ops",
                _ => "short",
            };
            assert_eq!(unit, expected, "{title}: {query}");
            assert!(!text(target, "legendFormat").is_empty(), "{title}");
            let used = query.split('$').skip(1).map(|rest| {
                let end = rest.find(|letter| !is_word(letter)).unwrap_or(rest.len());
                &rest[..end]
            });
            for variable in used.filter(|name| !name.starts_with("__")) {
                assert!(variables.contains(&variable), "{title}: ${variable}");
            }
        }
    }
}

/// A page with a metric of each type.
fn small_page() -> Page {
    page(
        "# TYPE wheelwork_a_total counter\nwheelwork_a_total{service=\"x\",shard=\"0\"} 1\n\n\
         # TYPE wheelwork_b gauge\nwheelwork_b{service=\"x\"} 1\n\
         # TYPE wheelwork_c histogram\nwheelwork_c_bucket{service=\"x\",le=\"1\"} 1\n\
         wheelwork_c_sum{service=\"x\"} 1\nwheelwork_c_count{service=\"x\"} 1\n",
    )
}

#[test]
fn a_figure_without_a_panel_is_seen() {
    let page = small_page();
    let (a, b) = ("rate(wheelwork_a_total[1m])", "wheelwork_b");
    for (queries, expected) in [
        (&[a, b, "rate(wheelwork_c_sum[1m])"][..], &[][..]),
        (&[b, "rate(wheelwork_c_bucket[1m])"], &["wheelwork_a_total"]),
        (&[a, b], &["wheelwork_c"]),
    ] {
        assert_eq!(unshown(queries, &page), expected, "{queries:?}");
    }
}

#[test]
fn a_query_that_asks_for_something_else_is_seen() {
    let page = small_page();
    for (query, legend, found) in [
        (
            "sum by (shard) (rate(wheelwork_a_total{service=~\"$s\"}[1m]))",
            "{{shard}} a",
            0,
        ),
        ("sum by (le) (rate(wheelwork_c_bucket[1m]))", "", 0),
        (
            "sum by (service) (wheelwork_b{service=\"x\"})",
            "{{service}}",
            0,
        ),
        ("label_values(wheelwork_b{service!=\"x\"}, service)", "", 0),
        ("rate(wheelwork_gone_total[1m])", "", 1),
        ("rate(wheelwork_a[1m])", "", 1),
        ("rate(wheelwork_a_total{core=\"0\"}[1m])", "", 1),
        ("sum by (core) (rate(wheelwork_a_total[1m]))", "{{core}}", 1),
        ("sum by (service) (rate(wheelwork_b[1m]))", "", 1),
        ("sum by (service) (wheelwork_a_total)", "", 1),
        ("sum by (service) (wheelwork_b)", "{{shard}}", 1),
        ("label_values(wheelwork_b, shard)", "", 1),
        ("up", "", 1),
    ] {
        let faults = faults(query, legend, &page);
        assert_eq!(faults.len(), found, "{query}: {faults:?}");
    }
}
