//! Draw: a snapshot as a frame. A pure function; it fits into any size of terminal, the least
//! important things go first.

mod shards;
#[cfg(test)]
mod tests;
mod text;

use super::snapshot::{EVENTS, Phase, Sample, Snapshot};
use indicatif::HumanCount;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Stylize};
use ratatui::text::Line;
use ratatui::widgets::{Paragraph, RenderDirection, Sparkline};
use std::time::Duration;
use text::{at_the_right, bar, block, quiet, rate, strong, took};

/// The width of the rates, with their frame.
const RATES_WIDTH: u16 = 36;

/// Lines of the first rates, with their frame.
const RATES_HEIGHT: u16 = 8;

pub(super) fn draw(snapshot: &Snapshot, frame: &mut Frame<'_>) {
    // Three lines, rates and lateness, the shards: these take what they need of what the rest can
    // spare.
    let Rect { width, height, .. } = frame.area();
    let room = height.saturating_sub(3 + RATES_HEIGHT);
    let shards = shards::height(snapshot.sample.shards.len(), width, room);
    let upper = height.saturating_sub(3 + shards).max(RATES_HEIGHT);
    let fixed = [1, 1, 1, upper].map(Constraint::Length).into_iter();
    let rows = Layout::vertical(fixed.chain([Constraint::Min(0)]));
    let [title, phase, over, upper, shards] = rows.areas(frame.area());
    draw_title(snapshot, frame, title);
    draw_phase(snapshot.phase.as_ref(), frame, phase);
    draw_over(&snapshot.over, frame, over);
    let columns = [Constraint::Length(RATES_WIDTH), Constraint::Min(0)];
    let [rates, lateness] = Layout::horizontal(columns).areas(upper);
    draw_rates(&snapshot.sample, frame, rates);
    draw_lateness(&snapshot.sample, frame, lateness);
    shards::draw(&snapshot.sample, snapshot.tick, frame, shards);
}

fn draw_title(snapshot: &Snapshot, frame: &mut Frame<'_>, area: Rect) {
    let elapsed = strong(took(snapshot.elapsed));
    let right = at_the_right(vec![elapsed, "  q closes ".into()]);
    let widths = [Constraint::Min(0), Constraint::Length(right.width() as u16)];
    let [left, right_area] = Layout::horizontal(widths).areas(area);
    let name = strong(" wheelwork ").fg(Color::Cyan);
    let title = Line::from(vec![name, snapshot.title.as_str().into()]);
    frame.render_widget(Paragraph::new(title), left);
    frame.render_widget(Paragraph::new(right), right_area);
}

fn draw_phase(phase: Option<&Phase>, frame: &mut Frame<'_>, area: Rect) {
    let Some(Phase { what, total, done }) = phase else {
        return;
    };
    let part = *done as f64 / (*total).max(1) as f64;
    let (percent, done, total) = (
        (part * 100.0).floor(),
        HumanCount(*done),
        HumanCount(*total),
    );
    let text = format!(" {percent:>3.0} %  {done} of {total} ");
    let name = format!(" {what:<10} ");
    let width = usize::from(area.width).saturating_sub(name.chars().count() + text.len() + 2);
    let bar = format!("{:<width$}", bar(width, part)).fg(Color::Cyan);
    let line = vec![strong(name), quiet("▕"), bar, quiet("▏"), text.into()];
    frame.render_widget(Paragraph::new(Line::from(line)), area);
}

/// The phases that are over; if there is no room for all, the last ones.
fn draw_over(over: &[(String, Duration)], frame: &mut Frame<'_>, area: Rect) {
    let text = |(what, time): &(String, Duration)| format!("{what} {}", took(*time));
    let all: Vec<String> = over.iter().map(text).collect();
    let from = |first: usize| {
        let others = if first > 0 { "… " } else { "" };
        format!(" {others}{}", all[first..].join(" · "))
    };
    let fits = |text: &String| text.chars().count() <= usize::from(area.width);
    let text = (0..=all.len()).map(from).find(fits);
    let text = text.unwrap_or_else(|| from(all.len()));
    frame.render_widget(Paragraph::new(quiet(text)), area);
}

fn draw_rates(sample: &Sample, frame: &mut Frame<'_>, area: Rect) {
    let numbers = sample.rates.into_iter().zip(sample.totals);
    let lines = numbers.zip(EVENTS).map(|((now, total), (name, _))| {
        let text = format!("{:>9}", rate(now));
        let rate = if now < 0.5 { quiet(text) } else { strong(text) };
        let total = HumanCount(total).to_string();
        let total = quiet(format!("{total:>13} "));
        Line::from(vec![format!(" {name:<9} ").into(), rate, total])
    });
    let lines = Paragraph::new(lines.collect::<Vec<_>>());
    let title = " events a second, in all ";
    frame.render_widget(lines.block(block(title)), area);
}

fn draw_lateness(sample: &Sample, frame: &mut Frame<'_>, area: Rect) {
    let latest_first = || sample.lateness.iter().rev();
    let last = latest_first().find_map(|lateness| *lateness);
    let last = last.map_or(String::new(), |last| format!("last {} ", took(last)));
    let block = block(vec![" p99 lateness ".into(), strong(last)]);
    let inner = block.inner(area);
    let shown = latest_first().take(usize::from(inner.width)).copied();
    let top = shown.clone().flatten().max();
    let top_text = top.map_or(String::new(), |top| format!(" top {} ", took(top)));
    let all = sample.lateness_of_all.map(|all| {
        let [p50, p99, max] = all.map(took);
        format!(" all: p50 {p50} p99 {p99} max {max} ")
    });
    let all = all.unwrap_or_else(|| " nothing has fired yet ".to_string());
    let block = block.title(at_the_right(top_text)).title_bottom(all);
    frame.render_widget(block, area);
    let micros = |lateness: Duration| lateness.as_micros() as u64;
    let line = Sparkline::default()
        .data(
            shown
                .map(|lateness| lateness.map(micros))
                .collect::<Vec<_>>(),
        )
        .max(top.map_or(0, micros).max(1))
        .direction(RenderDirection::RightToLeft)
        .fg(Color::Yellow);
    frame.render_widget(line, inner);
}
