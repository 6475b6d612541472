import { execFileSync } from 'node:child_process'
import { expect, it } from 'vitest'
import { describeWith } from '../../../test/support/services.ts'
import { reliability, sampleSize, studentSize, withDropout } from './arithmetic.ts'
import { normalQuantile, studentQuantile } from './quantiles.ts'
import { random } from '../../../test/support/random.ts'
import { toNumber } from './rational.ts'

// The script in R is independent of this code: it uses R's qnorm and qt, its own search for the t size, and its own integers for dropout.
const program = `
cases <- read.table(file("stdin"), header = TRUE)
z <- qnorm(0.975)
for (i in seq_len(nrow(cases))) {
  k <- cases[i, ]
  v <- if (k$proportion == 1) (1 - k$mean) / k$mean else (k$sd / k$mean)^2
  n0 <- z^2 * v / 0.05^2
  n <- min(k$population, max(1, ceiling(k$population * n0 / (k$population - 1 + n0))))
  meets <- function(m) qt(0.975, m - 1)^2 * v / m * (k$population - m) / (k$population - 1) <= 0.05^2
  t <- max(2, n)
  while (t < k$population && !meets(t)) t <- t + 1
  stays <- 1000 - k$thousandths
  s2 <- if (k$proportion == 1) k$mean * (1 - k$mean) * k$completes / (k$completes - 1) else k$sd^2
  half <- qt(0.975, k$completes - 1) * sqrt((1 - k$completes / k$population) * s2 / k$completes)
  cat(n, t, (n * 1000 + stays - 1) %/% stays, sprintf("%.17g", half / k$mean), sprintf("%.17g", k$mean - half),
      sprintf("%.17g", -qnorm((1 - k$confidence) / 2)), sprintf("%.17g", -qt((1 - k$confidence) / 2, k$df)), "\\n")
}`

await describeWith('r', 'against R', (rscript) => {
  it('not one integer of 2,000 random cases differs, and quantiles and intervals agree to 1e-12', () => {
    const any = random('against R')
    const cases = Array.from({ length: 2000 }, () => {
      const population = any.integer(2, any.integer(0, 1) ? 100_000 : 1000)
      return {
        population,
        mean: any.decimal(0.05, 0.999, 3),
        sd: any.decimal(0, 1, 3),
        proportion: any.integer(0, 1),
        thousandths: any.integer(0, 950),
        confidence: any.decimal(0.5, 0.99, 2),
        df: any.integer(1, 5000),
        completes: any.integer(2, population),
      }
    })
    const rows = cases.map((one) => Object.values(one).join(' '))
    const output = execFileSync(rscript, ['-e', program], {
      input: [Object.keys(cases[0]!).join(' '), ...rows].join('\n'),
    })
    const answers = output.toString().trim().split('\n')
    expect(answers).toHaveLength(2000)
    const differ = cases.flatMap((one, index) => {
      const [n, t, drawn, half, lower, z, student] = answers[index]!.trim().split(/\s+/).map(Number)
      const question = {
        confidence: 0.95,
        precision: 0.05,
        population: one.population,
        estimator: one.proportion ? ('proportion' as const) : ('mean' as const),
        mean: one.mean,
        sd: one.sd,
      }
      const { size } = sampleSize(question)
      const found = reliability({ ...question, completes: one.completes })
      const ours = [size, studentSize(question), withDropout(size, one.thousandths / 1000)]
      const apart = [
        toNumber(normalQuantile(one.confidence).low) / z! - 1,
        toNumber(studentQuantile(one.confidence, one.df).low) / student! - 1,
        // With two answers t is 12.7, so half-widths above 1 are compared by their relative difference.
        (found.relHalfWidth - half!) / Math.max(1, half!),
        found.lowerBoundMean - lower!,
      ]
      const same = ours[0] === n && ours[1] === t && ours[2] === drawn
      return same && apart.every((by) => Math.abs(by) < 1e-12)
        ? []
        : [{ one, ours, r: [n, t, drawn], apart }]
    })
    expect(differ).toEqual([])
  }, 120_000)
})
