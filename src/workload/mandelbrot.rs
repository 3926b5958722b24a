//! The work itself: the Mandelbrot iteration, counted exactly, row by row.
//!
//! z ← z² + c in IEEE 754 double precision, multiplication and addition rounded apart, until |z| > 2 or the limit. No
//! point is skipped, also none whose fate is known, so the sum of the counts is the same on every machine.

use std::ops::RangeInclusive;

/// The part of the plane and how closely it is looked at; one that exists is within the limits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Work {
    width: u32,
    height: u32,
    max_iter: u32,
    re: f64,
    im: f64,
    span: f64,
}

/// What one point came to.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Point {
    /// How often z ← z² + c was applied.
    pub iterations: u32,
    /// |z|² after the last application; above 4 where the point escaped.
    pub norm: f64,
}

/// Points along one side.
pub const SIDE: RangeInclusive<u32> = 1..=4000;
/// Iterations of one point at most.
pub const MAX_ITER: RangeInclusive<u32> = 1..=100_000;
/// Centre of the picture, both parts.
pub const CENTRE: RangeInclusive<f64> = -4.0..=4.0;
/// Width of the picture on the real axis.
pub const SPAN: RangeInclusive<f64> = 1e-13..=16.0;
/// Width × height × iterations at most: a little more than `heavy`.
pub const BUDGET: u64 = 4_000_000_000;

impl Work {
    /// The source lab's picture.
    pub const LIGHT: Self = Self::whole_set(125, 100, 100);
    /// What `GET /` computes.
    pub const STANDARD: Self = Self::whole_set(1000, 800, 1000);
    /// Four times `standard`.
    pub const HEAVY: Self = Self::whole_set(2000, 1600, 1000);

    /// Re −2…0.5, Im −1…1 at a size of 5 : 4.
    const fn whole_set(width: u32, height: u32, max_iter: u32) -> Self {
        Self {
            width,
            height,
            max_iter,
            re: -0.75,
            im: 0.0,
            span: 2.5,
        }
    }

    /// The fixed work of this name.
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "light" => Some(Self::LIGHT),
            "standard" => Some(Self::STANDARD),
            "heavy" => Some(Self::HEAVY),
            _ => None,
        }
    }

    /// The picture of `width` × `height` points around (`re`, `im`), `span` wide on the real axis; a sentence that names
    /// the limit where one is passed.
    pub fn new(
        (width, height): (u32, u32),
        max_iter: u32,
        (re, im): (f64, f64),
        span: f64,
    ) -> Result<Self, String> {
        within("width", width, &SIDE)?;
        within("height", height, &SIDE)?;
        within("max_iter", max_iter, &MAX_ITER)?;
        within("re", re, &CENTRE)?;
        within("im", im, &CENTRE)?;
        within("span", span, &SPAN)?;
        let most = u64::from(width) * u64::from(height) * u64::from(max_iter);
        if most > BUDGET {
            return Err(format!(
                "width × height × max_iter is {most}; at most {BUDGET} iterations are computed for one picture."
            ));
        }
        Ok(Self {
            width,
            height,
            max_iter,
            re,
            im,
            span,
        })
    }

    /// Points along the real axis.
    pub const fn width(&self) -> u32 {
        self.width
    }

    /// Points along the imaginary axis: rows.
    pub const fn height(&self) -> u32 {
        self.height
    }

    /// Iterations of one point at most.
    pub const fn max_iter(&self) -> u32 {
        self.max_iter
    }

    /// Centre on the plane and the width on the real axis.
    pub const fn view(&self) -> (f64, f64, f64) {
        (self.re, self.im, self.span)
    }

    /// Real part of column `i`: for the whole set −2 + 2.5·i/w.
    fn real(&self, i: u32) -> f64 {
        (self.re - self.span / 2.0) + self.span * f64::from(i) / f64::from(self.width)
    }

    /// Imaginary part of row `j`: for the whole set −1 + 2·j/h.
    fn imaginary(&self, j: u32) -> f64 {
        let tall = self.span * f64::from(self.height) / f64::from(self.width);
        (self.im - tall / 2.0) + tall * f64::from(j) / f64::from(self.height)
    }

    /// Computes row `j` into `points`, one for each column, and returns the sum of its iterations.
    pub fn row(&self, j: u32, points: &mut [Point]) -> u64 {
        debug_assert_eq!(points.len(), self.width as usize);
        let imaginary = self.imaginary(j);
        let mut columns = 0..self.width;
        let mut lanes = Lanes::default();
        for lane in 0..LANES {
            lanes.fill(lane, columns.next().map(|i| self.start(i)), imaginary);
        }
        let mut sum = 0;
        while lanes.point.iter().any(Option::is_some) {
            let norms = lanes.run();
            for (lane, norm) in norms.into_iter().enumerate() {
                let Some(i) = lanes.point[lane] else {
                    continue;
                };
                if norm <= 4.0 && lanes.left[lane] > 0 {
                    continue;
                }
                let iterations = self.max_iter - lanes.left[lane];
                sum += u64::from(iterations);
                points[i as usize] = Point { iterations, norm };
                lanes.fill(lane, columns.next().map(|i| self.start(i)), imaginary);
            }
        }
        sum
    }

    fn start(&self, i: u32) -> (u32, f64, u32) {
        (i, self.real(i), self.max_iter)
    }
}

fn within<T: Copy + PartialOrd + std::fmt::Display>(
    name: &str,
    value: T,
    limits: &RangeInclusive<T>,
) -> Result<(), String> {
    if limits.contains(&value) {
        return Ok(());
    }
    Err(format!(
        "{name} is {value}; it must be from {} to {}.",
        limits.start(),
        limits.end()
    ))
}

/// Points under way at once. Each point is one chain of dependent operations; two of them side by side keep a core's
/// scalar units about half busy on every current CPU. More lanes would let wide vector units make the work cheaper on
/// some machines, and the workload is to show cores, not vector units.
const LANES: usize = 2;

/// Independent points that advance together, one iteration at a time.
struct Lanes {
    x: [f64; LANES],
    y: [f64; LANES],
    a: [f64; LANES],
    b: [f64; LANES],
    /// Iterations still allowed.
    left: [u32; LANES],
    /// The column computed here; `None` = the lane idles at z = c = 0, which never escapes.
    point: [Option<u32>; LANES],
}

impl Default for Lanes {
    fn default() -> Self {
        Self {
            x: [0.0; LANES],
            y: [0.0; LANES],
            a: [0.0; LANES],
            b: [0.0; LANES],
            left: [u32::MAX; LANES],
            point: [None; LANES],
        }
    }
}

impl Lanes {
    fn fill(&mut self, lane: usize, next: Option<(u32, f64, u32)>, imaginary: f64) {
        (self.x[lane], self.y[lane]) = (0.0, 0.0);
        if let Some((i, real, max_iter)) = next {
            (self.a[lane], self.b[lane]) = (real, imaginary);
            self.left[lane] = max_iter;
            self.point[lane] = Some(i);
        } else {
            (self.a[lane], self.b[lane]) = (0.0, 0.0);
            self.left[lane] = u32::MAX;
            self.point[lane] = None;
        }
    }

    /// Iterates all lanes until one has escaped or used up its iterations; returns |z|² of each.
    fn run(&mut self) -> [f64; LANES] {
        let budget = self.left.iter().copied().min().unwrap_or(0);
        let (mut x, mut y, a, b) = (self.x, self.y, self.a, self.b);
        let mut steps = 0;
        let norms = loop {
            let mut norms = [0.0; LANES];
            let (mut xx, mut yy) = ([0.0; LANES], [0.0; LANES]);
            let mut inside = true;
            for lane in 0..LANES {
                xx[lane] = x[lane] * x[lane];
                yy[lane] = y[lane] * y[lane];
                norms[lane] = xx[lane] + yy[lane];
                inside &= norms[lane] <= 4.0;
            }
            if !inside || steps == budget {
                break norms;
            }
            for lane in 0..LANES {
                y[lane] = 2.0 * x[lane] * y[lane] + b[lane];
                x[lane] = xx[lane] - yy[lane] + a[lane];
            }
            steps += 1;
        };
        (self.x, self.y) = (x, y);
        for left in &mut self.left {
            *left -= steps;
        }
        norms
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn iterations(work: &Work) -> u64 {
        let mut points = vec![Point::default(); work.width() as usize];
        (0..work.height()).map(|j| work.row(j, &mut points)).sum()
    }

    /// The definition, point by point, without lanes.
    fn plain(work: &Work, column: u32, row: u32) -> u32 {
        let (a, b) = (work.real(column), work.imaginary(row));
        let (mut x, mut y, mut count) = (0.0_f64, 0.0_f64, 0);
        while count < work.max_iter() && x * x + y * y <= 4.0 {
            (x, y) = (x * x - y * y + a, 2.0 * x * y + b);
            count += 1;
        }
        count
    }

    #[test]
    fn light_and_standard_take_the_iterations_of_the_contract() {
        assert_eq!(iterations(&Work::LIGHT), 448_896);
        assert_eq!(iterations(&Work::STANDARD), 247_134_810);
    }

    #[test]
    fn lanes_count_as_the_plain_definition_does() {
        let odd = [
            Work::new((1, 1), 7, (0.0, 0.0), 1.0),
            Work::new((7, 3), 1, (0.0, 0.0), 16.0),
            Work::new((33, 19), 250, (-0.7435, 0.1314), 0.002),
        ];
        for work in odd {
            let work = work.unwrap();
            let mut points = vec![Point::default(); work.width() as usize];
            for j in 0..work.height() {
                work.row(j, &mut points);
                for (i, point) in (0..).zip(&points) {
                    assert_eq!(point.iterations, plain(&work, i, j), "{work:?} at {i}, {j}");
                }
            }
        }
    }

    #[test]
    fn a_passed_limit_is_named() {
        let check = |size, max_iter, centre, span, part: &str| {
            let sentence = Work::new(size, max_iter, centre, span).unwrap_err();
            assert!(sentence.contains(part), "{sentence}");
        };
        check(
            (0, 5),
            10,
            (0.0, 0.0),
            1.0,
            "width is 0; it must be from 1 to 4000",
        );
        check((5, 4001), 10, (0.0, 0.0), 1.0, "height is 4001");
        check((5, 5), 0, (0.0, 0.0), 1.0, "max_iter is 0");
        check((5, 5), 10, (f64::NAN, 0.0), 1.0, "re is NaN");
        check((5, 5), 10, (0.0, 5.0), 1.0, "im is 5");
        check((5, 5), 10, (0.0, 0.0), 0.0, "span is 0");
        check(
            (4000, 4000),
            1000,
            (0.0, 0.0),
            1.0,
            "at most 4000000000 iterations",
        );
    }

    #[test]
    fn heavy_is_within_the_limits_that_others_have() {
        let work = Work::new((2000, 1600), 1000, (-0.75, 0.0), 2.5);
        assert_eq!(work, Ok(Work::HEAVY));
    }
}
