//! The checksum of redb's pages: XXH3 with 128 bits, without a seed.
//!
//! redb does not offer its own one. Salvage needs it to tell a page that a tree has now from one
//! that it had before: both are well formed. It is written for files that are read once, so it
//! takes no wide instructions.
//!
//! Reference: <https://github.com/Cyan4973/xxHash/blob/dev/doc/xxhash_spec.md>

const STRIPE: usize = 64;
const SECRET: [u8; 192] = [
    0xb8, 0xfe, 0x6c, 0x39, 0x23, 0xa4, 0x4b, 0xbe, 0x7c, 0x01, 0x81, 0x2c, 0xf7, 0x21, 0xad, 0x1c,
    0xde, 0xd4, 0x6d, 0xe9, 0x83, 0x90, 0x97, 0xdb, 0x72, 0x40, 0xa4, 0xa4, 0xb7, 0xb3, 0x67, 0x1f,
    0xcb, 0x79, 0xe6, 0x4e, 0xcc, 0xc0, 0xe5, 0x78, 0x82, 0x5a, 0xd0, 0x7d, 0xcc, 0xff, 0x72, 0x21,
    0xb8, 0x08, 0x46, 0x74, 0xf7, 0x43, 0x24, 0x8e, 0xe0, 0x35, 0x90, 0xe6, 0x81, 0x3a, 0x26, 0x4c,
    0x3c, 0x28, 0x52, 0xbb, 0x91, 0xc3, 0x00, 0xcb, 0x88, 0xd0, 0x65, 0x8b, 0x1b, 0x53, 0x2e, 0xa3,
    0x71, 0x64, 0x48, 0x97, 0xa2, 0x0d, 0xf9, 0x4e, 0x38, 0x19, 0xef, 0x46, 0xa9, 0xde, 0xac, 0xd8,
    0xa8, 0xfa, 0x76, 0x3f, 0xe3, 0x9c, 0x34, 0x3f, 0xf9, 0xdc, 0xbb, 0xc7, 0xc7, 0x0b, 0x4f, 0x1d,
    0x8a, 0x51, 0xe0, 0x4b, 0xcd, 0xb4, 0x59, 0x31, 0xc8, 0x9f, 0x7e, 0xc9, 0xd9, 0x78, 0x73, 0x64,
    0xea, 0xc5, 0xac, 0x83, 0x34, 0xd3, 0xeb, 0xc3, 0xc5, 0x81, 0xa0, 0xff, 0xfa, 0x13, 0x63, 0xeb,
    0x17, 0x0d, 0xdd, 0x51, 0xb7, 0xf0, 0xda, 0x49, 0xd3, 0x16, 0x55, 0x26, 0x29, 0xd4, 0x68, 0x9e,
    0x2b, 0x16, 0xbe, 0x58, 0x7d, 0x47, 0xa1, 0xfc, 0x8f, 0xf8, 0xb8, 0xd1, 0x7a, 0xd0, 0x31, 0xce,
    0x45, 0xcb, 0x3a, 0x8f, 0x95, 0x16, 0x04, 0x28, 0xaf, 0xd7, 0xfb, 0xca, 0xbb, 0x4b, 0x40, 0x7e,
];

const PRIME32: [u64; 3] = [0x9E37_79B1, 0x85EB_CA77, 0xC2B2_AE3D];
const PRIME64: [u64; 5] = [
    0x9E37_79B1_85EB_CA87,
    0xC2B2_AE3D_27D4_EB4F,
    0x1656_67B1_9E37_79F9,
    0x85EB_CA77_C2B2_AE63,
    0x27D4_EB2F_1656_67C5,
];

const MIX: u64 = 0x9FB2_1C65_1E98_DF25;

/// The bytes of a secret that a long text's blocks go by: one stripe for each 8.
const STRIPES_OF_BLOCK: usize = (SECRET.len() - STRIPE) / 8;

/// The checksum of a page's used bytes.
pub(super) fn checksum(data: &[u8]) -> u128 {
    match data.len() {
        0 => both(
            avalanche64(u64_at(&SECRET, 64) ^ u64_at(&SECRET, 72)),
            avalanche64(u64_at(&SECRET, 80) ^ u64_at(&SECRET, 88)),
        ),
        1..=3 => upto_3(data),
        4..=8 => upto_8(data),
        9..=16 => upto_16(data),
        17..=128 => upto_128(data),
        129..=240 => upto_240(data),
        _ => long(data),
    }
}

fn u32_at(data: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(*data[at..].first_chunk().unwrap_or(&[0; 4]))
}

fn u64_at(data: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(*data[at..].first_chunk().unwrap_or(&[0; 8]))
}

fn both(low: u64, high: u64) -> u128 {
    u128::from(high) << 64 | u128::from(low)
}

fn avalanche64(mut x: u64) -> u64 {
    x ^= x >> 33;
    x = x.wrapping_mul(PRIME64[1]);
    x ^= x >> 29;
    x = x.wrapping_mul(PRIME64[2]);
    x ^ x >> 32
}

fn avalanche(mut x: u64) -> u64 {
    x ^= x >> 37;
    x = x.wrapping_mul(0x1656_6791_9E37_79F9);
    x ^ x >> 32
}

fn folded(x: u64, y: u64) -> u64 {
    let product = u128::from(x) * u128::from(y);
    product as u64 ^ (product >> 64) as u64
}

fn upto_3(data: &[u8]) -> u128 {
    let len = data.len();
    let [first, middle, last] = [data[0], data[len / 2], data[len - 1]].map(u32::from);
    let low = first << 16 | middle << 24 | last | (len as u32) << 8;
    let high = low.swap_bytes().rotate_left(13);
    let secret_low = u64::from(u32_at(&SECRET, 0) ^ u32_at(&SECRET, 4));
    let secret_high = u64::from(u32_at(&SECRET, 8) ^ u32_at(&SECRET, 12));
    both(
        avalanche64(u64::from(low) ^ secret_low),
        avalanche64(u64::from(high) ^ secret_high),
    )
}

fn upto_8(data: &[u8]) -> u128 {
    let len = data.len();
    let x = u64::from(u32_at(data, 0)) | u64::from(u32_at(data, len - 4)) << 32;
    let secret = u64_at(&SECRET, 16) ^ u64_at(&SECRET, 24);
    let factor = PRIME64[0].wrapping_add((len as u64) << 2);
    let product = u128::from(x ^ secret).wrapping_mul(u128::from(factor));
    let (mut low, mut high) = (product as u64, (product >> 64) as u64);
    high = high.wrapping_add(low << 1);
    low ^= high >> 3;
    low ^= low >> 35;
    low = low.wrapping_mul(MIX);
    low ^= low >> 28;
    both(low, avalanche(high))
}

fn upto_16(data: &[u8]) -> u128 {
    let len = data.len();
    let secret_low = u64_at(&SECRET, 32) ^ u64_at(&SECRET, 40);
    let secret_high = u64_at(&SECRET, 48) ^ u64_at(&SECRET, 56);
    let (x_low, x_high) = (u64_at(data, 0), u64_at(data, len - 8));
    let mixed = x_low ^ x_high ^ secret_low;
    let x_high = x_high ^ secret_high;
    let product = u128::from(mixed).wrapping_mul(u128::from(PRIME64[0]));
    let mut low = (product as u64).wrapping_add((len as u64 - 1) << 54);
    let high = ((product >> 64) as u64)
        .wrapping_add(x_high)
        .wrapping_add((x_high & 0xFFFF_FFFF).wrapping_mul(PRIME32[1] - 1));
    low ^= high.swap_bytes();
    let product = u128::from(low).wrapping_mul(u128::from(PRIME64[1]));
    let last = ((product >> 64) as u64).wrapping_add(high.wrapping_mul(PRIME64[1]));
    both(avalanche(product as u64), avalanche(last))
}

fn mix16(data: &[u8], at: usize, secret: usize, seed: u64) -> u64 {
    folded(
        u64_at(data, at) ^ u64_at(&SECRET, secret).wrapping_add(seed),
        u64_at(data, at + 8) ^ u64_at(&SECRET, secret + 8).wrapping_sub(seed),
    )
}

/// Mixes 16 bytes at each of two places into a state.
fn mix32(
    (low, high): (u64, u64),
    data: &[u8],
    (one, two): (usize, usize),
    secret: usize,
    seed: u64,
) -> (u64, u64) {
    let sum = |at| u64_at(data, at).wrapping_add(u64_at(data, at + 8));
    (
        low.wrapping_add(mix16(data, one, secret, seed)) ^ sum(two),
        high.wrapping_add(mix16(data, two, secret + 16, seed)) ^ sum(one),
    )
}

fn end_of((low, high): (u64, u64), len: usize) -> u128 {
    let last = low
        .wrapping_mul(PRIME64[0])
        .wrapping_add(high.wrapping_mul(PRIME64[3]))
        .wrapping_add((len as u64).wrapping_mul(PRIME64[1]));
    both(
        avalanche(low.wrapping_add(high)),
        0_u64.wrapping_sub(avalanche(last)),
    )
}

fn upto_128(data: &[u8]) -> u128 {
    let len = data.len();
    let mut state = (PRIME64[0].wrapping_mul(len as u64), 0);
    for part in (0..(len - 1) / 32 + 1).rev() {
        let places = (16 * part, len - 16 * (part + 1));
        state = mix32(state, data, places, 32 * part, 0);
    }
    end_of(state, len)
}

fn upto_240(data: &[u8]) -> u128 {
    let len = data.len();
    let mut state = (PRIME64[0].wrapping_mul(len as u64), 0);
    for part in 0..4 {
        state = mix32(state, data, (32 * part, 32 * part + 16), 32 * part, 0);
    }
    state = (avalanche(state.0), avalanche(state.1));
    for part in 4..len / 32 {
        let secret = 3 + 32 * (part - 4);
        state = mix32(state, data, (32 * part, 32 * part + 16), secret, 0);
    }
    // (The last one goes by the secret of a short one, from behind.)
    state = mix32(state, data, (len - 16, len - 32), 136 - 33, 0);
    end_of(state, len)
}

fn accumulate(sums: &mut [u64; 8], stripe: &[u8], secret: usize) {
    for lane in 0..8 {
        let x = u64_at(stripe, 8 * lane);
        let y = x ^ u64_at(&SECRET, secret + 8 * lane);
        sums[lane ^ 1] = sums[lane ^ 1].wrapping_add(x);
        sums[lane] = sums[lane].wrapping_add((y & 0xFFFF_FFFF) * (y >> 32));
    }
}

fn merge(sums: &[u64; 8], secret: usize, begin: u64) -> u64 {
    let parts = (0..4).map(|part| {
        folded(
            sums[2 * part] ^ u64_at(&SECRET, secret + 16 * part),
            sums[2 * part + 1] ^ u64_at(&SECRET, secret + 16 * part + 8),
        )
    });
    avalanche(parts.fold(begin, u64::wrapping_add))
}

fn long(data: &[u8]) -> u128 {
    let mut sums = [
        PRIME32[2], PRIME64[0], PRIME64[1], PRIME64[2], PRIME64[3], PRIME32[1], PRIME64[4],
        PRIME32[0],
    ];
    let stripes = data[..data.len() - 1].chunks_exact(STRIPE);
    let full_blocks = (data.len() - 1) / (STRIPE * STRIPES_OF_BLOCK);
    for (number, stripe) in stripes.enumerate() {
        accumulate(&mut sums, stripe, number % STRIPES_OF_BLOCK * 8);
        let (block, is_last) = (
            number / STRIPES_OF_BLOCK,
            number % STRIPES_OF_BLOCK == STRIPES_OF_BLOCK - 1,
        );
        if is_last && block < full_blocks {
            for (lane, sum) in sums.iter_mut().enumerate() {
                *sum ^= *sum >> 47;
                *sum ^= u64_at(&SECRET, SECRET.len() - STRIPE + 8 * lane);
                *sum = sum.wrapping_mul(PRIME32[0]);
            }
        }
    }
    accumulate(
        &mut sums,
        &data[data.len() - STRIPE..],
        SECRET.len() - STRIPE - 7,
    );
    let len = data.len() as u64;
    both(
        merge(&sums, 11, PRIME64[0].wrapping_mul(len)),
        merge(&sums, SECRET.len() - 64 - 11, !PRIME64[1].wrapping_mul(len)),
    )
}
