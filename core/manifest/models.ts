import { RuntimeError } from '../errors.ts'
import { meant } from './did-you-mean.ts'

const kinds: Readonly<Record<string, readonly string[]>> = {
  label: ['string'],
  standIn: ['boolean', 'undefined'],
  free: ['boolean', 'undefined'],
  needs: ['object', 'undefined'],
  prefixes: ['object', 'undefined'],
  fault: ['function', 'undefined'],
  open: ['function'],
  list: ['function', 'undefined'],
  embed: ['function', 'undefined'],
}

/** Faults of a section `models`, as it stands in a definition or as its function made it. */
export function checkModels(plugin: string, models: unknown): RuntimeError[] {
  if (models === undefined || typeof models === 'function') return []
  const fault = (message: string, hint: string) =>
    new RuntimeError('MANIFEST_INVALID', `Plugin ${plugin}: ${message}`, { hint })
  if (typeof models !== 'object' || models === null)
    return [fault('"models" is no object.', 'It has a provider under each name: { label, open }.')]
  return Object.entries(models).flatMap(([name, provider]: [string, unknown]) => {
    if (!/^[a-z][a-z0-9]*(-[a-z0-9]+)*$/.test(name))
      return [
        fault(
          `"models" has a provider "${name}".`,
          'The name stands before the slash in MODEL: lower-case words with hyphens between.',
        ),
      ]
    if (typeof provider !== 'object' || provider === null)
      return [fault(`"models.${name}" is no object.`, 'A provider has a label and an open().')]
    return fieldFaults(provider).map(([message, hint]) =>
      fault(`"models.${name}" ${message}`, hint),
    )
  })
}

function fieldFaults(provider: object): [message: string, hint: string][] {
  const known = Object.keys(kinds)
  const unknown = Object.keys(provider).find((key) => !known.includes(key))
  if (unknown !== undefined)
    return [
      [
        `has "${unknown}", which is none of its fields.`,
        meant(unknown, known) || `They are ${known.join(', ')}.`,
      ],
    ]
  const fields: Readonly<Record<string, unknown>> = { ...provider }
  const wrong = known.find((key) => !kinds[key]?.includes(typeof fields[key]))
  if (wrong === undefined) return []
  return [[`has a wrong "${wrong}".`, `It is a ${kinds[wrong]?.[0]}.`]]
}
