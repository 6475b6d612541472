import { type EnvSource, parseEnv } from '../../manifest/env.ts'
import { secretValues } from '../../manifest/select.ts'
import { isActive, type PluginRecord } from '../base/plugin-record.ts'
import type { FromFiles } from './from-files.ts'

/** What variables of plugins are rotated in. */
export interface RotationOptions {
  readonly records: readonly PluginRecord[]
  /** The parsed environment slice of each active plugin: the very object that the plugin has as `env`. */
  readonly envOf: ReadonlyMap<string, Record<string, unknown>>
  /** The environment of the boot, which then has the new values. */
  readonly source: Record<string, string | undefined>
  /** The values that no line may show, to which new ones are added. */
  readonly secrets: string[]
}

/** What a rotation would change. */
export interface PlannedRotation {
  readonly variables: readonly string[]
  apply(): void
}

/** How many values of before stay secret beside those of the boot. */
const mostFormer = 1_000

/** Brings the variables of plugins up to date whose files have another text now. */
export class Rotation {
  readonly #options: RotationOptions
  readonly #bootSecrets: number

  constructor(options: RotationOptions) {
    this.#options = options
    this.#bootSecrets = options.secrets.length
  }

  /** Finds out what has changed. Throws for a value that does not fit; nothing changes before `apply`. */
  plan({ source, names }: Pick<FromFiles, 'source' | 'names'>): PlannedRotation {
    const { records, envOf } = this.#options
    const changed = new Set(names.filter((name) => source[name] !== this.#options.source[name]))
    const variables: string[] = []
    const steps: (() => void)[] = []
    for (const { name, definition } of records.filter(isActive)) {
      const shape = Object.fromEntries(
        Object.entries(definition.env ?? {}).filter(([variable]) => changed.has(variable)),
      )
      const { values, faults } = parseEnv(`plugin ${name}`, shape, source)
      if (faults[0]) throw faults[0]
      variables.push(...Object.keys(shape))
      steps.push(() => {
        Object.assign(envOf.get(name) ?? {}, values)
        this.#hide(secretValues([shape], source))
      })
    }
    const apply = () => {
      for (const step of steps) step()
      for (const variable of variables) this.#options.source[variable] = source[variable]
    }
    return { variables, apply }
  }

  /** Has the log mask more values. */
  hide(shapes: Parameters<typeof secretValues>[0], source: EnvSource): void {
    this.#hide(secretValues(shapes, source))
  }

  #hide(values: readonly string[]): void {
    const { secrets } = this.#options
    secrets.push(...values.filter((value) => !secrets.includes(value)))
    const former = secrets.length - this.#bootSecrets - mostFormer
    if (former > 0) secrets.splice(this.#bootSecrets, former)
  }
}
