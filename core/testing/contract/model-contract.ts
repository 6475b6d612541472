import { abort } from './abort.ts'
import {
  anotherModel,
  bothWays,
  emptyArguments,
  forcedTool,
  objectMode,
  parallelCalls,
  toolLoop,
  unsignedThinking,
  plainWords,
} from './answers.ts'
import { CheckOver, Stage, type ContractCheck } from './check.ts'
import { brokenStream, faultCodes, strangeAnswers } from './faults.ts'
import { images } from './images.ts'
import { told } from './judge.ts'
import type { ContractOptions, ContractReport, OpenModel } from './scene.ts'

const checks: readonly ContractCheck[] = [
  plainWords,
  bothWays,
  parallelCalls,
  emptyArguments,
  toolLoop,
  unsignedThinking,
  anotherModel,
  forcedTool,
  objectMode,
  images,
  abort,
  faultCodes,
  brokenStream,
  strangeAnswers,
]

/** The checks that `modelContract` makes with these options, in order, each with the calls that it makes at most. */
export function contractChecks({ real, only }: ContractOptions = {}): readonly {
  readonly name: string
  readonly calls: number
}[] {
  return checks
    .filter(({ name, staged }) => !(real && staged) && (only?.includes(name) ?? true))
    .map(({ name, calls }) => ({ name, calls }))
}

/**
 * Checks what every model must do: order, abort, faults by their codes, usage, calls, provider data that was JSON in
 * between, images, and no key in any error. It throws nothing and asserts nothing: what it finds it says, a sentence each.
 *
 *     const report = await modelContract((scene) => {
 *       provider.clear()
 *       provider.answer(...scene.answers)
 *       return myModel({ key: provider.key, baseUrl: provider.url })
 *     }, { key: provider.key })
 *     expect(report.findings).toEqual([])
 */
export async function modelContract(
  open: OpenModel,
  options: ContractOptions = {},
): Promise<ContractReport> {
  const findings: string[] = []
  const skipped: string[] = []
  const wanted = new Set(contractChecks(options).map(({ name }) => name))
  for (const { name, run } of checks.filter((check) => wanted.has(check.name))) {
    const stage = new Stage(name, open, options)
    try {
      await run(stage)
    } catch (error) {
      if (!(error instanceof CheckOver))
        stage.find(`The check "${name}" could not be made (${told(error, options.key)}).`)
    }
    findings.push(...stage.findings)
    skipped.push(...stage.skipped)
  }
  return { findings: [...new Set(findings)], checked: [...wanted], skipped }
}
