import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { parseEnv } from 'node:util'
import type { AnyPlugin } from '../../index.ts'
import type { FoundApp } from '../app-of-folder.ts'
import { type EnvSource, isForAuthors } from '../../core/manifest/env.ts'
import { kernelEnv } from '../../core/manifest/kernel-env.ts'
import { secretValues } from '../../core/manifest/select.ts'
import { withGenerated } from '../../core/runtime/boot/environment.ts'
import { readInstructions } from '../../core/runtime/boot/instructions.ts'
import { readOptions } from '../../core/runtime/boot/options.ts'
import { planBoot } from '../../core/runtime/boot/plan.ts'
import { readPlans } from '../../core/runtime/jobs/plan.ts'
import { kernelRouteKeys } from '../../core/runtime/kernel-routes.ts'
import { ChosenModels } from '../../core/runtime/model/choose.ts'
import { ChosenEmbedder } from '../../core/runtime/model/embed/chosen-embedder.ts'
import { readVariableFiles } from '../../core/runtime/variables/from-files.ts'
import { models as bundled } from '../../plugins/models.ts'
import { faultOf, type Finding, ok, warning } from './finding.ts'

/** What the environment makes of an app, as its boot would find it. */
export interface CheckedEnvironment {
  /** The variables, with those from files and those that are generated for authors. */
  readonly source: EnvSource
  readonly plugins: readonly AnyPlugin[]
  /** Values that may stand in no line. */
  readonly secrets: readonly string[]
  readonly findings: readonly Finding[]
}

const what = 'environment'

/** Goes through everything that a boot decides before it opens anything. Writes nothing. */
export async function checkEnvironment(
  options: FoundApp['options'],
  bare: EnvSource,
): Promise<CheckedEnvironment> {
  const { plugins, features, faults: ofOptions } = readOptions(options)
  const bringsModels = plugins.some((plugin) => plugin?.definition?.models !== undefined)
  const added = options.models === false || bringsModels ? [] : bundled
  const all = [...plugins, ...added].filter((plugin) => plugin?.definition)
  const shapes = [kernelEnv, ...all.map(({ definition }) => definition.env ?? {})]
  const { source: given, ...files } = await readVariableFiles(bare, shapes)
  const source = isForAuthors(given) ? await withKept(given, shapes) : given
  const plan = planBoot({ plugins, added, features, source, kernelRoutes: kernelRouteKeys })
  const { config, records, envOf } = plan
  const choice = { settings: options.modelSettings, config, source, records, envOf }
  const chosen = new ChosenModels({ ...choice, given: options.model, now: undefined })
  const embedder = new ChosenEmbedder(choice)
  const count = records.filter(({ isAdded }) => !isAdded).length
  const { faults: ofJobs } = await readPlans(records)
  const { faults: ofInstructions } = await readInstructions(options.instructions, config)
  const faults = [
    ...[...ofOptions, ...files.faults, ...plan.faults, ...ofJobs],
    ...[...chosen.faults, ...embedder.faults, ...ofInstructions],
  ].map((error) => faultOf(what, error))
  const warnings = [...plan.suspects, ...files.warnings].map((sentence) =>
    warning(what, sentence, 'Correct the variable or the file, or leave it if it is meant so.'),
  )
  for (const { name, state, reason, isAdded } of records)
    if (state === 'excluded' && !isAdded)
      warnings.push(
        warning(what, `The plugin ${name} would be left out: ${reason}`, 'Set what it lacks.'),
      )
  return {
    ...{ source, plugins: [...plugins, ...added] },
    secrets: [...secretValues(shapes, source), ...chosen.secrets, ...embedder.secrets],
    findings:
      faults.length > 0
        ? [...faults, ...warnings]
        : [ok(what, count === 1 ? '1 plugin, sound' : `${count} plugins, sound`), ...warnings],
  }
}

/** The variables with what DATA_DIR keeps of generated ones; what is missing there is made up and kept nowhere. */
async function withKept(given: EnvSource, shapes: Parameters<typeof withGenerated>[1]) {
  const path = join(given.DATA_DIR || '.data', 'dev.env')
  const kept = existsSync(path) ? parseEnv(readFileSync(path, 'utf8')) : {}
  const set = Object.fromEntries(Object.entries(given).filter(([, value]) => value))
  return withGenerated({ ...kept, ...set }, shapes, undefined)
}
