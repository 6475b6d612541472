import type { Model, ModelSettings } from '#core/models'
import { contractChecks, modelContract } from '#core/testing'

/** What the check of a model is made with. */
export interface ModelCheckOptions {
  /** Opens the model, anew for each scene. */
  open(): Model | Promise<Model>
  /** The key, which may stand in no error. */
  readonly key?: string
  /** What every call is asked with. */
  readonly settings?: ModelSettings
  /** Takes a line of what came of it. */
  say(line: string): void
}

/** How many calls of a real provider the contract makes at most. */
export function callsOfContract(): number {
  return contractChecks({ real: true }).reduce((sum, { calls }) => sum + calls, 0)
}

/** Makes every check of the contract on a real provider and tells each in a line. True: the model keeps the contract. */
export async function checkModel({ open, say, ...options }: ModelCheckOptions): Promise<boolean> {
  let found = 0
  const checks = contractChecks({ real: true })
  for (const { name } of checks) {
    const report = await modelContract(() => open(), { ...options, real: true, only: [name] })
    const { findings, skipped } = report
    found += findings.length
    if (findings.length === 0) say(skipped[0] ? `skipped  ${skipped[0]}` : `passed   ${name}`)
    else for (const finding of findings) say(`FAILED   ${name}: ${finding}`)
  }
  say('')
  say(
    found === 0
      ? `${checks.length} checks: the model keeps the contract.`
      : `${checks.length} checks: ${found === 1 ? 'one thing is' : `${found} things are`} wrong.`,
  )
  return found === 0
}
