use super::*;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::Cell;
use wheelwork::ShardStats;

const MS: Duration = Duration::from_millis(1);

fn shard(pending: u64, due: u64, levels: &[u64]) -> ShardStats {
    let mut shard = ShardStats::default();
    (shard.timers.pending, shard.machinery.due) = (pending, due);
    (shard.machinery.lane_depth, shard.machinery.pool_backlog) = (1_234, 64);
    shard.machinery.levels[..levels.len()].copy_from_slice(levels);
    shard
}

fn snapshot(shards: Vec<ShardStats>) -> Snapshot {
    let mut sample = Sample {
        shards,
        peak: 1_000_000,
        ..Sample::default()
    };
    (sample.rates[0], sample.totals[0]) = (8_123_456.0, 12_345_678);
    (sample.rates[3], sample.totals[3]) = (0.4, 1_000);
    sample.lateness = vec![None, Some(MS), None, Some(MS * 2), Some(MS * 4)];
    sample.lateness_of_all = Some([MS, MS * 2, MS * 4]);
    let over = [("pairs", MS * 216), ("burst", MS * 1_500)];
    Snapshot {
        title: "1,000,000 timers".to_string(),
        elapsed: MS * 12_300,
        tick: MS,
        phase: Some(Phase {
            what: "arm".to_string(),
            total: 1_000_000,
            done: 255_000,
        }),
        over: over.map(|(what, time)| (what.to_string(), time)).into(),
        sample,
    }
}

/// The lines of a terminal of this size.
fn lines(snapshot: &Snapshot, width: u16, height: u16) -> Vec<String> {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("it takes all");
    let drawn = terminal.draw(|frame| draw(snapshot, frame));
    drawn.expect("it takes all");
    let cells = terminal.backend().buffer().content();
    let lines = cells.chunks(usize::from(width.max(1)));
    let text = |line: &[Cell]| line.iter().map(Cell::symbol).collect::<String>();
    lines
        .map(|line| text(line).trim_end().to_string())
        .collect()
}

#[test]
fn a_terminal_of_80_by_24_shows_all() {
    let snapshot = snapshot(vec![shard(1_000_000, 0, &[999, 1_000_000])]);
    let expected = " wheelwork 1,000,000 timers                                    12.3 s  q closes
 arm        ▕█████████▍                           ▏  25 %  255,000 of 1,000,000
 pairs 216 ms · burst 1.50 s
╭ events a second, in all ─────────╮╭ p99 lateness last 4.00 ms ── top 4.00 ms ╮
│ armed       8.1M /s   12,345,678 ││                                         █│
│ cancelled      0 /s            0 ││                                         █│
│ re-armed       0 /s            0 ││                                         █│
│ fired          0 /s        1,000 ││                                         █│
│ wake-ups       0 /s            0 ││                                        ▄█│
│ rings          0 /s            0 ││                                        ██│
│ turns          0 /s            0 ││                                      ▂ ██│
│ messages       0 /s            0 ││                                      █ ██│
│ pairs met      0 /s            0 ││                                      █ ██│
╰──────────────────────────────────╯╰ all: p50 1.00 ms p99 2.00 ms max 4.00 ms ╯
╭ shard 0 1,000,000 timers ────────────────────────────────────────────────────╮
│ due                                                                        0 │
│ 0 <256 ms  ███████████████████████████                                   999 │
│ 1 <65.5 s  ██████████████████████████████████████████████████████  1,000,000 │
│ 2 <4.66 h                                                                  0 │
│ 3 <49.7 d                                                                  0 │
│ 4 <34.8 y                                                                  0 │
│ 5 <8919 y                                                                  0 │
│ 6 rest                                                                     0 │
╰ lanes 1.2k, pool 64 ───────────────────────────────────────────── log, to 1M ╯";
    let lines = lines(&snapshot, 80, 24);
    let text = lines.join("\n");
    assert_eq!(text, expected, "\n{text}");
}

#[test]
fn shards_have_frames_as_long_as_there_is_room() {
    let snapshot = snapshot((0..8).map(|number| shard(number, 0, &[number])).collect());
    let framed = lines(&snapshot, 160, 50);
    // Four of them in a line.
    let titles = framed.iter().filter(|line| line.contains("shard "));
    let titles: Vec<&String> = titles.collect();
    let has =
        |line: usize, shard| titles[line].contains(&format!("╭ shard {shard} {shard} timers"));
    assert!((0..4).all(|shard| has(0, shard)), "{framed:#?}");
    assert!(titles.len() == 2 && has(1, 7), "{framed:#?}");
    assert!(framed.iter().all(|line| line.chars().count() <= 160));
    let fewer = lines(&snapshot, 80, 24);
    assert!(fewer[11].contains("shard 1 1 timers"), "{fewer:#?}");
    assert_eq!(
        fewer[21], " … and 6 more shards with 27 timers",
        "{fewer:#?}"
    );
}

#[test]
fn between_two_services_there_is_nothing_to_show() {
    let text = lines(&Snapshot::default(), 80, 24).join("\n");
    let has = |what| text.contains(what);
    let both = has("no service is at work") && has("nothing has fired yet");
    assert!(both, "{text}");
}

/// The last ones, since they are what has just happened.
#[test]
fn of_many_phases_the_last_ones_are_told() {
    let mut snapshot = snapshot(Vec::new());
    let phases = (0..50).map(|number| (format!("phase {number}"), MS));
    snapshot.over = phases.collect();
    let line = &lines(&snapshot, 80, 24)[2];
    let ends = line.starts_with(" … ") && line.ends_with("· phase 49 1.00 ms");
    assert!(ends && line.chars().count() <= 80, "{line}");
}

#[test]
fn no_size_and_no_number_is_too_much() {
    let most = |shards| {
        let mut snapshot = snapshot(vec![shard(u64::MAX / 64, u64::MAX, &[u64::MAX; 7]); shards]);
        snapshot.sample.peak = u64::MAX;
        snapshot.sample.totals.fill(u64::MAX);
        snapshot.sample.rates.fill(f64::MAX);
        snapshot.sample.lateness = vec![Some(Duration::MAX); 512];
        snapshot.sample.lateness_of_all = Some([Duration::MAX; 3]);
        snapshot.phase = Some(Phase {
            what: "a phase with a long name".repeat(9),
            total: 0,
            done: u64::MAX,
        });
        snapshot.tick = Duration::from_secs(24 * 3600);
        snapshot.elapsed = Duration::MAX;
        snapshot
    };
    let few = snapshot(vec![shard(1, 2, &[3]); 2]);
    for snapshot in [Snapshot::default(), few, most(1), most(5), most(64)] {
        for width in (0..50).chain([79, 80, 120, 500]) {
            for height in (0..30).chain([50, 200]) {
                let lines = lines(&snapshot, width, height);
                assert!(lines.len() <= usize::from(height));
            }
        }
    }
}

#[test]
fn bars_are_full_to_an_eighth_of_a_column() {
    for (part, text) in [
        (0.0, ""),
        (0.125, "▌"),
        (0.25, "█"),
        (0.5, "██"),
        (0.97, "███▉"),
        (1.0, "████"),
        (7.0, "████"),
        (f64::NAN, ""),
    ] {
        assert_eq!(bar(4, part), text);
    }
}
