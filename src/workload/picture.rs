//! From counted points to a picture: colours from deep water to foam, means of points, PNG.

use crate::workload::mandelbrot::{Point, Work};

/// A drawing in progress: rows of points go in, a PNG comes out.
pub(super) struct Canvas {
    work: Work,
    palette: Palette,
    /// Points along one side of a drawn pixel.
    block: u32,
    /// Drawn pixels of one row.
    columns: u32,
    /// Red, green and blue of the drawn row in the making, summed over its points.
    sums: Vec<[u32; 3]>,
    /// Rows summed so far.
    rows: u32,
    pixels: Vec<u8>,
}

/// The drawing is at most this wide; a larger picture is drawn as means of points, which also smooths its edges.
const DRAWN_WIDTH: u32 = 500;

impl Canvas {
    /// An empty drawing of this work.
    pub(super) fn new(work: Work) -> Self {
        let block = work.width().max(work.height()).div_ceil(DRAWN_WIDTH);
        let columns = work.width().div_ceil(block);
        let rows = work.height().div_ceil(block);
        Self {
            work,
            palette: Palette::new(work.max_iter()),
            block,
            columns,
            sums: vec![[0; 3]; columns as usize],
            rows: 0,
            pixels: Vec::with_capacity(columns as usize * rows as usize * 3),
        }
    }

    /// Draws the next row of points.
    pub(super) fn row(&mut self, points: &[Point]) {
        for (sum, block) in self.sums.iter_mut().zip(points.chunks(self.block as usize)) {
            for point in block {
                let colour = self.palette.colour(point);
                for (sum, part) in sum.iter_mut().zip(colour) {
                    *sum += u32::from(part);
                }
            }
        }
        self.rows += 1;
        if self.rows.is_multiple_of(self.block) || self.rows == self.work.height() {
            self.finish_drawn_row();
        }
    }

    fn finish_drawn_row(&mut self) {
        let tall = match self.rows % self.block {
            0 => self.block,
            rest => rest,
        };
        let mut wide_left = self.work.width();
        for sum in &mut self.sums {
            let wide = self.block.min(wide_left);
            wide_left -= wide;
            let count = tall * wide;
            // The mean of bytes is a byte.
            self.pixels.extend(
                sum.map(|part| u8::try_from((part + count / 2) / count).unwrap_or(u8::MAX)),
            );
            *sum = [0; 3];
        }
    }

    /// The picture as PNG, once every row is drawn.
    pub(super) fn png(&self) -> Vec<u8> {
        // Writing to memory fails only when rows are missing, which the caller's loop rules out.
        self.encode().expect("every row was drawn")
    }

    fn encode(&self) -> Result<Vec<u8>, png::EncodingError> {
        let mut bytes = Vec::with_capacity(self.pixels.len() / 2);
        let tall = self.work.height().div_ceil(self.block);
        let mut encoder = png::Encoder::new(&mut bytes, self.columns, tall);
        encoder.set_color(png::ColorType::Rgb);
        encoder.set_depth(png::BitDepth::Eight);
        encoder.set_compression(png::Compression::Balanced);
        let mut writer = encoder.write_header()?;
        writer.write_image_data(&self.pixels)?;
        writer.finish()?;
        Ok(bytes)
    }
}

/// Colours by smoothed count of iterations.
struct Palette {
    max_iter: u32,
    /// Colours at equal steps of the logarithm of the count.
    steps: Vec<[u8; 3]>,
    scale: f32,
}

/// From far outside the set to its very edge: the open sea, shallows, surf, foam.
const WATER: [(f32, [f32; 3]); 7] = [
    (0.00, [6.0, 24.0, 44.0]),
    (0.18, [9.0, 52.0, 88.0]),
    (0.36, [0.0, 103.0, 163.0]),
    (0.52, [26.0, 158.0, 190.0]),
    (0.68, [122.0, 212.0, 214.0]),
    (0.84, [228.0, 246.0, 240.0]),
    (1.00, [255.0, 255.0, 255.0]),
];
/// Points that never escaped.
const DEEP: [u8; 3] = [4, 16, 31];
const STEPS: u16 = 2048;

impl Palette {
    fn new(max_iter: u32) -> Self {
        let steps = (0..STEPS)
            .map(|step| water(f32::from(step) / f32::from(STEPS - 1)))
            .collect();
        // Beyond some hundred iterations only hair-thin lines differ: the scale ends there, so that they are all foam.
        let top = (max_iter.min(400) as f32 + 1.0).log2();
        Self {
            max_iter,
            steps,
            scale: f32::from(STEPS - 1) / top,
        }
    }

    fn colour(&self, point: &Point) -> [u8; 3] {
        if point.norm <= 4.0 && point.iterations == self.max_iter {
            return DEEP;
        }
        // n + 1 − log2(ln|z| / ln 2): the count without its steps.
        #[expect(clippy::cast_possible_truncation, reason = "a colour needs no more")]
        let norm = point.norm as f32;
        let smooth = point.iterations as f32 + 1.0 - (norm.log2() * 0.5).log2();
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "clamped to the table, and NaN becomes 0"
        )]
        let step = (smooth.max(1.0).log2() * self.scale) as usize;
        self.steps[step.min(self.steps.len() - 1)]
    }
}

fn water(at: f32) -> [u8; 3] {
    let above = WATER
        .iter()
        .position(|(stop, _)| *stop >= at)
        .unwrap_or(WATER.len() - 1)
        .max(1);
    let ((from, low), (to, high)) = (WATER[above - 1], WATER[above]);
    let share = ((at - from) / (to - from)).clamp(0.0, 1.0);
    std::array::from_fn(|part| {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "between two bytes"
        )]
        let byte = (low[part] + (high[part] - low[part]) * share).round() as u8;
        byte
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn draw(work: Work) -> Vec<u8> {
        let mut canvas = Canvas::new(work);
        let mut points = vec![Point::default(); work.width() as usize];
        for j in 0..work.height() {
            work.row(j, &mut points);
            canvas.row(&points);
        }
        canvas.png()
    }

    fn size(png: &[u8]) -> (u32, u32) {
        let reader = png::Decoder::new(std::io::Cursor::new(png))
            .read_info()
            .unwrap();
        (reader.info().width, reader.info().height)
    }

    #[test]
    fn standard_is_a_picture_of_10_to_200_kilobytes() {
        let png = draw(Work::STANDARD);
        assert_eq!(size(&png), (500, 400));
        assert!((10_000..=200_000).contains(&png.len()), "{}", png.len());
    }

    #[test]
    fn sizes_that_do_not_divide_are_drawn_whole() {
        let check = |size_of_work, drawn| {
            let work = Work::new(size_of_work, 20, (-0.75, 0.0), 2.5).unwrap();
            assert_eq!(size(&draw(work)), drawn);
        };
        check((1, 1), (1, 1));
        check((501, 3), (251, 2));
        check((3, 1001), (1, 334));
        check((125, 100), (125, 100));
    }
}
