//! Draw: a snapshot as a frame. A pure function; it fits into any size of terminal, the least important things go first.

mod numbers;
mod shards;
#[cfg(test)]
mod tests;

use super::snapshot::{EVENTS, Phase, Sample, Snapshot};
pub(super) use numbers::count;
use numbers::{rate, short, time};
use ratatui::Frame;
use ratatui::layout::{Alignment, Constraint, Layout, Rect};
use ratatui::style::{Color, Style, Stylize};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, BorderType, Paragraph, RenderDirection, Sparkline};
use std::time::Duration;

/// The width of the rates, with their frame.
const RATES_WIDTH: u16 = 36;

/// Lines of the first rates, with their frame.
const RATES_HEIGHT: u16 = 8;

const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];

pub(super) fn draw(snapshot: &Snapshot, frame: &mut Frame<'_>) {
    // Three lines, rates and lateness, the shards: these take what they need of what the rest can spare.
    let Rect { width, height, .. } = frame.area();
    let shards = shards::height(snapshot.sample.shards.len(), width, height.saturating_sub(3 + RATES_HEIGHT));
    let upper = height.saturating_sub(3 + shards).max(RATES_HEIGHT);
    let rows = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(1),
        Constraint::Length(1),
        Constraint::Length(upper),
        Constraint::Min(0),
    ]);
    let [title, phase, over, upper, shards] = rows.areas(frame.area());
    draw_title(snapshot, frame, title);
    draw_phase(snapshot.phase.as_ref(), frame, phase);
    draw_over(&snapshot.over, frame, over);
    let [rates, lateness] = Layout::horizontal([Constraint::Length(RATES_WIDTH), Constraint::Min(0)]).areas(upper);
    draw_rates(&snapshot.sample, frame, rates);
    draw_lateness(&snapshot.sample, frame, lateness);
    shards::draw(&snapshot.sample, snapshot.tick, frame, shards);
}

/// A frame with a title.
fn block<'a>(title: impl Into<Line<'a>>) -> Block<'a> {
    Block::bordered()
        .border_type(BorderType::Rounded)
        .border_style(Style::new().fg(Color::DarkGray))
        .title_style(Style::new().fg(Color::Reset))
        .title(title)
}

/// Numbers and names that matter.
fn strong(text: impl Into<String>) -> Span<'static> {
    Span::from(text.into()).bold()
}

/// A bar of so many columns, and the part of it that is full.
fn bar(width: usize, part: f64) -> String {
    let eighths = (part.clamp(0.0, 1.0) * (width * 8) as f64).round() as usize;
    "█".repeat(eighths / 8) + EIGHTHS[eighths % 8]
}

fn draw_title(snapshot: &Snapshot, frame: &mut Frame<'_>, area: Rect) {
    let right = Line::from(vec![strong(time(snapshot.elapsed.as_secs_f64())), "  q closes ".into()]).alignment(Alignment::Right);
    let [left, right_area] = Layout::horizontal([Constraint::Min(0), Constraint::Length(right.width() as u16)]).areas(area);
    let title = Line::from(vec![Span::from(" wheelwork ").bold().fg(Color::Cyan), Span::from(snapshot.title.as_str())]);
    frame.render_widget(Paragraph::new(title), left);
    frame.render_widget(Paragraph::new(right), right_area);
}

fn draw_phase(phase: Option<&Phase>, frame: &mut Frame<'_>, area: Rect) {
    let Some(Phase { what, total, done }) = phase else { return };
    let part = *done as f64 / (*total).max(1) as f64;
    let text = format!(" {:>3.0} %  {} of {} ", (part * 100.0).floor(), count(*done), count(*total));
    let name = format!(" {what:<10} ");
    let width = usize::from(area.width).saturating_sub(name.chars().count() + text.len() + 2);
    let bar = format!("{:<width$}", bar(width, part));
    let line = vec![strong(name), "▕".fg(Color::DarkGray), bar.fg(Color::Cyan), "▏".fg(Color::DarkGray), text.into()];
    frame.render_widget(Paragraph::new(Line::from(line)), area);
}

/// The phases that are over; if there is no room for all, the last ones.
fn draw_over(over: &[(String, Duration)], frame: &mut Frame<'_>, area: Rect) {
    let all: Vec<String> = over.iter().map(|(what, took)| format!("{what} {}", time(took.as_secs_f64()))).collect();
    let mut first = 0;
    let text = loop {
        let text = format!(" {}{}", if first > 0 { "… " } else { "" }, all[first..].join(" · "));
        if text.chars().count() <= usize::from(area.width) || first == all.len() {
            break text;
        }
        first += 1;
    };
    frame.render_widget(Paragraph::new(text.fg(Color::DarkGray)), area);
}

fn draw_rates(sample: &Sample, frame: &mut Frame<'_>, area: Rect) {
    let lines: Vec<Line<'_>> = sample
        .rates
        .into_iter()
        .zip(sample.totals)
        .zip(EVENTS)
        .map(|((now, total), (name, _))| {
            let is_quiet = now < 0.5;
            let rate = Span::from(format!("{:>9}", rate(now)));
            let rate = if is_quiet { rate.fg(Color::DarkGray) } else { rate.bold() };
            vec![Span::from(format!(" {name:<9} ")), rate, Span::from(format!("{:>13} ", count(total))).fg(Color::DarkGray)].into()
        })
        .collect();
    frame.render_widget(Paragraph::new(lines).block(block(" events a second, in all ")), area);
}

fn draw_lateness(sample: &Sample, frame: &mut Frame<'_>, area: Rect) {
    let last = sample.lateness.iter().rev().find_map(|lateness| *lateness);
    let text = last.map_or(String::new(), |last| format!("last {} ", time(last.as_secs_f64())));
    let block = block(vec![" p99 lateness ".into(), strong(text)]);
    let inner = block.inner(area);
    let shown: Vec<Option<Duration>> = sample.lateness.iter().rev().take(usize::from(inner.width)).copied().collect();
    let top = shown.iter().flatten().max().copied();
    let block =
        block.title(Line::from(top.map_or(String::new(), |top| format!(" top {} ", time(top.as_secs_f64())))).alignment(Alignment::Right));
    let all = sample.lateness_of_all.map(|all| {
        let [p50, p99, max] = all.map(|part| time(part.as_secs_f64()));
        format!(" all: p50 {p50} p99 {p99} max {max} ")
    });
    frame.render_widget(block.title_bottom(all.unwrap_or_else(|| " nothing has fired yet ".to_string())), area);
    let microseconds = |lateness: Option<Duration>| lateness.map(|lateness| lateness.as_micros() as u64);
    let line = Sparkline::default()
        .data(shown.into_iter().map(microseconds).collect::<Vec<_>>())
        .max(microseconds(top).unwrap_or(0).max(1))
        .direction(RenderDirection::RightToLeft)
        .fg(Color::Yellow);
    frame.render_widget(line, inner);
}
