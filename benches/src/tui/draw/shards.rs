//! What each shard holds: a frame with a bar for each level of its wheel, or, if there are too many shards for that, a line in a table.

use super::{bar, block, count, short, strong, time};
use crate::tui::snapshot::Sample;
use ratatui::Frame;
use ratatui::layout::{Alignment, Constraint, Layout, Rect};
use ratatui::style::{Color, Style, Stylize};
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;
use std::time::Duration;
use wheelwork::ShardStats;

const LEVELS: usize = 7;

/// What is due, and the levels.
const BARS: u16 = LEVELS as u16 + 1;

/// The least size of a shard's frame.
const WIDTH_MIN: u16 = 38;
const HEIGHT: u16 = BARS + 2;

/// From what is due to the far future.
const COLORS: [Color; BARS as usize] =
    [Color::Red, Color::Yellow, Color::Green, Color::Cyan, Color::LightBlue, Color::Blue, Color::Magenta, Color::LightMagenta];

/// Backgrounds of counts in the table, from few to many; the text on the last half is dark.
const HEAT: [Color; 6] =
    [Color::Indexed(22), Color::Indexed(28), Color::Indexed(34), Color::Indexed(70), Color::Indexed(148), Color::Indexed(220)];

/// The lines of the shards' frames, and how many of them stand side by side; nothing if there is no room for them.
fn frames(shards: usize, width: u16, height: u16) -> Option<(usize, usize)> {
    let lines = shards.div_ceil(usize::from(width / WIDTH_MIN).max(1));
    let fits = width >= WIDTH_MIN && lines * usize::from(HEIGHT) <= usize::from(height);
    fits.then(|| (lines, shards.div_ceil(lines)))
}

/// Of so much height, what so many shards make use of.
pub(super) fn height(shards: usize, width: u16, height: u16) -> u16 {
    // Between two services the place stays.
    let shards = shards.max(1);
    let used = frames(shards, width, height).map_or(shards + 1, |(lines, _)| lines * usize::from(HEIGHT));
    u16::try_from(used).unwrap_or(u16::MAX).min(height)
}

pub(super) fn draw(sample: &Sample, tick: Duration, frame: &mut Frame<'_>, area: Rect) {
    let shards = &sample.shards;
    if shards.is_empty() {
        return frame.render_widget(Paragraph::new(" no service is at work").fg(Color::DarkGray), area);
    }
    let Some((lines, columns)) = frames(shards.len(), area.width, area.height) else {
        return draw_table(sample, frame, area);
    };
    let scale = Scale::new(sample.peak);
    let lines = Layout::vertical(vec![Constraint::Length(HEIGHT); lines]).split(area);
    for (line, shards) in shards.chunks(columns).enumerate() {
        let places = Layout::horizontal(vec![Constraint::Ratio(1, columns as u32); columns]).split(lines[line]);
        for (column, shard) in shards.iter().enumerate() {
            draw_shard(line * columns + column, shard, scale, tick, frame, places[column]);
        }
    }
}

/// How full a bar is: by the logarithm of the count, from one entry to a power of ten.
#[derive(Clone, Copy)]
struct Scale {
    top: u64,
}

impl Scale {
    fn new(peak: u64) -> Self {
        let power = peak.max(1_000).saturating_sub(1).ilog10() + 1;
        Self { top: 10u64.saturating_pow(power) }
    }

    fn part(self, entries: u64) -> f64 {
        (entries as f64 + 1.0).ln() / (self.top as f64 + 1.0).ln()
    }
}

/// What is due, and the entries of each level.
fn counts(shard: &ShardStats) -> impl Iterator<Item = u64> {
    [shard.due].into_iter().chain(shard.levels)
}

fn draw_shard(number: usize, shard: &ShardStats, scale: Scale, tick: Duration, frame: &mut Frame<'_>, area: Rect) {
    let title = vec![strong(format!(" shard {number} ")), format!("{} timers ", count(shard.pending)).into()];
    let dead = if shard.holes > 0 { format!(", dead {}", short(shard.holes as f64)) } else { String::new() };
    let below = format!(" lanes {}, pool {}{dead} ", short(shard.lane_depth as f64), shard.pool_backlog);
    let block = block(title).title_bottom(below).title_bottom(
        Line::from(format!(" log, to {} ", short(scale.top as f64).replace(".0", ""))).alignment(Alignment::Right).fg(Color::DarkGray),
    );
    let inner = block.inner(area);
    let width = usize::from(inner.width).saturating_sub(24);
    let lines: Vec<Line<'_>> = counts(shard)
        .enumerate()
        .map(|(level, entries)| {
            let (name, color) = (format!(" {:<10} ", name(level, tick)), COLORS[level]);
            let bar = format!("{:<width$}", bar(width, if entries > 0 { scale.part(entries) } else { 0.0 }));
            let entries_text = format!("{:>11}", count(entries));
            let quiet = Style::new().fg(Color::DarkGray);
            let style = if entries > 0 { Style::new() } else { quiet };
            vec![Span::styled(name, style), bar.fg(color), Span::styled(entries_text, style)].into()
        })
        .collect();
    frame.render_widget(Paragraph::new(lines).block(block), area);
}

/// What lies there: `due`, or the level and how far it reaches.
fn name(bar: usize, tick: Duration) -> String {
    let Some(level) = bar.checked_sub(1) else { return "due".to_string() };
    if level == LEVELS - 1 {
        return format!("{level} rest");
    }
    let seconds = tick.as_secs_f64() * 256f64.powi(level as i32 + 1);
    format!("{level} <{}", time(seconds))
}

fn draw_table(sample: &Sample, frame: &mut Frame<'_>, area: Rect) {
    let scale = Scale::new(sample.peak);
    let head = ["shard", "timers", "due", "lev. 0", "1", "2", "3", "4", "5", "6", "lanes", "pool"];
    let head: String = head.into_iter().zip(WIDTHS).map(|(name, width)| format!("{name:>width$}")).collect();
    let mut lines = vec![Line::from(head).fg(Color::DarkGray)];
    let room = usize::from(area.height).saturating_sub(1);
    let shown = if sample.shards.len() > room { room.saturating_sub(1) } else { sample.shards.len() };
    lines.extend(sample.shards.iter().enumerate().take(shown).map(|(number, shard)| table_line(number, shard, scale)));
    let rest = &sample.shards[shown..];
    if !rest.is_empty() {
        let timers = rest.iter().map(|shard| shard.pending).sum();
        lines.push(Line::from(format!(" … and {} more shards with {} timers", rest.len(), count(timers))).fg(Color::DarkGray));
    }
    frame.render_widget(Paragraph::new(lines), area);
}

/// Columns of the table: number, timers, due, levels, lanes, pool.
const WIDTHS: [usize; 12] = [6, 8, 7, 7, 6, 6, 6, 6, 6, 6, 7, 6];

fn table_line(number: usize, shard: &ShardStats, scale: Scale) -> Line<'static> {
    let cell = |column: usize, number: u64| format!("{:>width$}", short(number as f64), width = WIDTHS[column]);
    let mut spans = vec![strong(format!("{number:>width$}", width = WIDTHS[0])), cell(1, shard.pending).into()];
    for (place, entries) in counts(shard).enumerate() {
        let heat = (scale.part(entries) * HEAT.len() as f64) as usize;
        let span = Span::from(cell(2 + place, entries));
        spans.push(if entries == 0 {
            span.fg(Color::DarkGray)
        } else {
            let heat = heat.min(HEAT.len() - 1);
            span.bg(HEAT[heat]).fg(if heat < HEAT.len() / 2 { Color::White } else { Color::Black })
        });
    }
    spans.extend([cell(10, shard.lane_depth).into(), cell(11, shard.pool_backlog).into()]);
    spans.into()
}
