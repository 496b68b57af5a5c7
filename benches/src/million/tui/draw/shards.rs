//! What each shard holds: a frame with a bar for each level of its wheel.

use super::text::{at_the_right, bar, block, quiet, short, strong, time};
use crate::tui::snapshot::Sample;
use indicatif::HumanCount;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Stylize};
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
const COLORS: [Color; BARS as usize] = [
    Color::Red,
    Color::Yellow,
    Color::Green,
    Color::Cyan,
    Color::LightBlue,
    Color::Blue,
    Color::Magenta,
    Color::LightMagenta,
];

/// How many shards' frames stand side by side in a line.
fn columns(width: u16) -> usize {
    usize::from(width / WIDTH_MIN)
}

/// The rows that this number of shards needs, up to the height.
pub(super) fn height(shards: usize, width: u16, height: u16) -> u16 {
    // Between two services the place stays.
    let lines = shards.max(1).div_ceil(columns(width).max(1));
    let used = lines * usize::from(HEIGHT);
    u16::try_from(used).unwrap_or(u16::MAX).min(height)
}

/// A frame for each shard that has room; the others are summed up.
pub(super) fn draw(sample: &Sample, tick: Duration, frame: &mut Frame<'_>, area: Rect) {
    let (shards, columns) = (&sample.shards, columns(area.width));
    let in_height = |height: u16| usize::from(height / HEIGHT) * columns;
    let shown = match in_height(area.height) {
        room if room >= shards.len() => shards.len(),
        _ => in_height(area.height.saturating_sub(1)),
    };
    let lines = shown.div_ceil(columns.max(1));
    let mut heights = vec![Constraint::Length(HEIGHT); lines];
    heights.push(Constraint::Min(0));
    let places = Layout::vertical(heights).split(area);
    let top = top(sample.peak);
    let side_by_side = vec![Constraint::Fill(1); shown.div_ceil(lines.max(1))];
    let frames = places[..lines].iter();
    let frames: Vec<Rect> = frames
        .flat_map(|line| {
            Layout::horizontal(side_by_side.clone())
                .split(*line)
                .to_vec()
        })
        .collect();
    for ((number, shard), place) in shards.iter().enumerate().zip(&frames) {
        draw_shard(number, shard, top, tick, frame, *place);
    }
    let rest = &shards[shown.min(frames.len())..];
    let timers = HumanCount(rest.iter().map(|shard| shard.timers.pending).sum());
    let text = match rest.len() {
        0 if shards.is_empty() => " no service is at work".to_string(),
        0 => return,
        more => format!(" … and {more} more shards with {timers} timers"),
    };
    frame.render_widget(Paragraph::new(quiet(text)), places[lines]);
}

/// The count at which a bar is full: a power of ten.
fn top(peak: u64) -> u64 {
    let power = peak.max(1_000).saturating_sub(1).ilog10() + 1;
    10u64.saturating_pow(power)
}

/// How full a bar is: by the logarithm of the count.
fn part(entries: u64, top: u64) -> f64 {
    (entries as f64 + 1.0).ln() / (top as f64 + 1.0).ln()
}

/// What is due, and the entries of each level.
fn counts(shard: &ShardStats) -> impl Iterator<Item = u64> {
    [shard.machinery.due]
        .into_iter()
        .chain(shard.machinery.levels)
}

fn draw_shard(
    number: usize,
    shard: &ShardStats,
    top: u64,
    tick: Duration,
    frame: &mut Frame<'_>,
    area: Rect,
) {
    let number = strong(format!(" shard {number} "));
    let title = vec![
        number,
        format!("{} timers ", HumanCount(shard.timers.pending)).into(),
    ];
    let (lanes, pool) = (
        short(shard.machinery.lane_depth as f64),
        shard.machinery.pool_backlog,
    );
    let dead = match shard.machinery.holes {
        0 => String::new(),
        holes => format!(", dead {}", short(holes as f64)),
    };
    let scale = quiet(format!(" log, to {} ", short(top as f64).replace(".0", "")));
    let block = block(title)
        .title_bottom(format!(" lanes {lanes}, pool {pool}{dead} "))
        .title_bottom(at_the_right(scale));
    let width = usize::from(block.inner(area).width).saturating_sub(24);
    let lines = counts(shard).enumerate().map(|(level, entries)| {
        let name = format!(" {:<10} ", name(level, tick));
        let number = format!("{:>11}", HumanCount(entries).to_string());
        let (text, part) = match entries {
            0 => ([name, number].map(quiet), 0.0),
            _ => ([name, number].map(Span::from), part(entries, top)),
        };
        let [name, number] = text;
        let bar = format!("{:<width$}", bar(width, part));
        Line::from(vec![name, bar.fg(COLORS[level]), number])
    });
    let lines = Paragraph::new(lines.collect::<Vec<_>>());
    frame.render_widget(lines.block(block), area);
}

/// What lies there: `due`, or the level and how far it reaches.
fn name(bar: usize, tick: Duration) -> String {
    match bar.checked_sub(1) {
        None => "due".to_string(),
        Some(level) if level == LEVELS - 1 => format!("{level} rest"),
        Some(level) => {
            let seconds = tick.as_secs_f64() * 256f64.powi(level as i32 + 1);
            format!("{level} <{}", time(seconds))
        }
    }
}
