use super::*;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use wheelwork::ShardStats;

const MS: Duration = Duration::from_millis(1);

fn shard(pending: u64, due: u64, levels: &[u64]) -> ShardStats {
    let mut shard = ShardStats::default();
    (shard.pending, shard.due, shard.lane_depth, shard.pool_backlog) = (pending, due, 1_234, 64);
    shard.levels[..levels.len()].copy_from_slice(levels);
    shard
}

fn snapshot(shards: Vec<ShardStats>) -> Snapshot {
    let mut sample = Sample { shards, peak: 1_000_000, ..Sample::default() };
    (sample.rates[0], sample.totals[0]) = (8_123_456.0, 12_345_678);
    (sample.rates[3], sample.totals[3]) = (0.4, 1_000);
    sample.lateness = vec![None, Some(MS), None, Some(MS * 2), Some(MS * 4)];
    sample.lateness_of_all = Some([MS, MS * 2, MS * 4]);
    Snapshot {
        title: "1,000,000 timers".to_string(),
        elapsed: MS * 12_300,
        tick: MS,
        phase: Some(Phase { what: "arm".to_string(), total: 1_000_000, done: 255_000 }),
        over: vec![("pairs".to_string(), MS * 216), ("burst".to_string(), MS * 1_500)],
        sample,
    }
}

/// The lines of a terminal of this size.
fn lines(snapshot: &Snapshot, width: u16, height: u16) -> Vec<String> {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("it takes all");
    terminal.draw(|frame| draw(snapshot, frame)).expect("it takes all");
    let cells = terminal.backend().buffer().content();
    cells
        .chunks(usize::from(width.max(1)))
        .map(|line| line.iter().map(|cell| cell.symbol()).collect::<String>().trim_end().to_string())
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
    assert_eq!(lines.join("\n"), expected, "\n{}", lines.join("\n"));
}

#[test]
fn shards_have_frames_of_their_own_as_long_as_there_is_room() {
    let snapshot = snapshot((0..8).map(|number| shard(number, 0, &[number])).collect());
    let framed = lines(&snapshot, 160, 50);
    // Four of them in a line.
    let titles: Vec<&String> = framed.iter().filter(|line| line.contains("shard ")).collect();
    assert!(titles.len() == 2 && (0..4).all(|shard| titles[0].contains(&format!("╭ shard {shard} {shard} timers"))), "{framed:#?}");
    assert!(titles[1].contains("shard 7 7 timers") && framed.iter().all(|line| line.chars().count() <= 160));
    let table = lines(&snapshot, 80, 24);
    assert!(table[18].starts_with("     2       2      0      2     0 ") && table.len() == 24, "{table:#?}");
}

#[test]
fn more_shards_than_lines_are_summed_up() {
    let snapshot = snapshot((0..64).map(|_| shard(30_000, 5, &[10, 20_000, 0, 0, 0, 0, 1])).collect());
    let table = lines(&snapshot, 80, 24);
    assert_eq!(table[11], " shard  timers    due lev. 0     1     2     3     4     5     6  lanes  pool");
    assert_eq!(table[12], "     0   30.0k      5     10 20.0k     0     0     0     0     1   1.2k    64");
    assert_eq!((table[23].as_str(), table.len()), (" … and 53 more shards with 1,590,000 timers", 24));
    let all = lines(&snapshot, 80, 100);
    assert!(all.iter().any(|line| line.starts_with("    63 ")) && !all.iter().any(|line| line.contains("more")), "{all:#?}");
}

#[test]
fn between_two_services_there_is_nothing_to_show() {
    let text = lines(&Snapshot::default(), 80, 24).join("\n");
    assert!(text.contains("no service is at work") && text.contains("nothing has fired yet"), "{text}");
}

/// The last ones, since they are what has just happened.
#[test]
fn of_many_phases_the_last_ones_are_told() {
    let mut snapshot = snapshot(Vec::new());
    snapshot.over = (0..50).map(|number| (format!("phase {number}"), MS)).collect();
    let line = &lines(&snapshot, 80, 24)[2];
    assert!(line.starts_with(" … ") && line.ends_with("· phase 49 1.00 ms") && line.chars().count() <= 80, "{line}");
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
        snapshot.phase = Some(Phase { what: "a phase with a long name".repeat(9), total: 0, done: u64::MAX });
        snapshot.tick = Duration::from_secs(24 * 3600);
        snapshot.elapsed = Duration::MAX;
        snapshot
    };
    for snapshot in [Snapshot::default(), snapshot(vec![shard(1, 2, &[3]); 2]), most(1), most(5), most(4_096 / 64)] {
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
    for (part, text) in [(0.0, ""), (0.125, "▌"), (0.25, "█"), (0.5, "██"), (0.97, "███▉"), (1.0, "████"), (7.0, "████"), (f64::NAN, "")]
    {
        assert_eq!(bar(4, part), text);
    }
}
