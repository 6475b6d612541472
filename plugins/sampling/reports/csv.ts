import type { SampleDesign } from '../design/record.ts'

type Cell = string | number | boolean | undefined | null

/** A design as CSV after RFC 4180: a row for each stratum, or one row "all"; the parameters of the whole stand in every row. */
export function csvOf(design: SampleDesign): string {
  const { parameters: p, working: w, stratification, selection, verification } = design
  const whole = {
    designId: design.designId,
    revision: design.revision,
    projectId: design.projectId,
    createdAt: design.createdAt,
    confidence: p.confidence,
    precision: p.precision,
    estimator: p.estimator,
    z: w.z,
    deff: w.deff?.value,
    calculatedSize: p.calculatedSize,
    adjustedSize: p.adjustedSize,
    erCoverage: p.erCoverage,
    method: stratification?.method,
    frameDigest: selection?.frameDigest,
    source: selection?.source,
    round: selection?.round,
    verifiable: selection?.verifiable,
    status: verification.status,
    verifier: verification.verifier,
  }
  const strata: Record<string, Cell>[] = stratification?.strata.map((stratum) => ({
    stratum: stratum.name,
    weight: stratum.weight,
    population: stratum.population,
    mean: stratum.mean,
    sd: stratum.sd,
    dropoutRate: stratum.dropoutRate,
    baseUnrounded: stratum.working.baseUnrounded,
    fpcUnrounded: stratum.working.fpcUnrounded,
    requiredSize: stratum.requiredSize,
    sampleSize: stratum.sampleSize,
    basis: stratum.basis,
    note: stratum.note,
  })) ?? [
    {
      stratum: 'all',
      weight: 1,
      population: p.population,
      mean: p.expectedMean,
      sd: p.expectedSD,
      dropoutRate: p.dropoutRate,
      baseUnrounded: w.baseUnrounded,
      fpcUnrounded: w.fpcUnrounded,
      requiredSize: p.adjustedSize,
      sampleSize: p.adjustedSize,
      basis: undefined,
      note: undefined,
    },
  ]
  const rows = strata.map((stratum) => ({ ...stratum, ...whole }))
  const header = Object.keys(rows[0] ?? {})
  return [header, ...rows.map(Object.values<Cell>)]
    .map((cells) => `${cells.map(written).join(',')}\r\n`)
    .join('')
}

/**
 * A cell. A text that a spreadsheet would take for a formula gets an apostrophe before it, because names and notes are
 * strangers' words; a number stays as it is.
 */
function written(cell: Cell): string {
  if (cell === undefined || cell === null) return ''
  const text = typeof cell === 'string' && /^[=+\-@\t\r]/.test(cell) ? `'${cell}` : String(cell)
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text
}
