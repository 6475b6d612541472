import { RuntimeError } from '../errors.ts'
import { meant } from './did-you-mean.ts'

/** By plugin name: true loads the plugin or stops the boot, false never loads it. */
export type Features = Readonly<Record<string, boolean>>

const words: Record<string, boolean> = { on: true, true: true, off: false, false: false }

/**
 * Joins the `features` option with the FEATURES variable (`notes=off,maps=on`). Where both name a plugin the variable
 * wins, for the operator sets it after the author.
 */
export function readFeatures(
  option: Features,
  variable: string | undefined,
  plugins: readonly string[],
) {
  const features: Record<string, boolean> = { ...option }
  const faults: RuntimeError[] = []
  for (const entry of (variable ?? '').split(',')) {
    if (!entry.trim()) continue
    const [name = '', word = ''] = entry.split('=').map((part) => part.trim())
    const on = words[word.toLowerCase()]
    if (on === undefined)
      faults.push(
        new RuntimeError('ENV_INVALID', `FEATURES has the entry "${entry.trim()}".`, {
          hint: 'Write name=on or name=off, separated by commas.',
        }),
      )
    else features[name] = on
  }
  for (const name of Object.keys(features))
    if (!plugins.includes(name))
      faults.push(
        new RuntimeError(
          'PLUGIN_UNKNOWN',
          `Features name the plugin "${name}", which this app does not have.`,
          {
            hint: meant(name, plugins) || `The plugins are ${plugins.join(', ') || 'none'}.`,
          },
        ),
      )
  return { features: features as Features, faults }
}
