/** What the text of `GET /metrics` says. */
export interface ReadMetrics {
  /** Every series by its whole name, labels included. */
  readonly series: readonly string[]
  /** The value of the first series of this name that has these labels. */
  value(name: string, labels?: Readonly<Record<string, string>>): number | undefined
}

const line = /^([a-z_:][a-z0-9_:]*)(?:\{(.*)\})? (\S+)$/s
const label = /([a-z_]+)="((?:[^"\\]|\\.)*)"(?:,|$)/gy

/** Reads the text format 0.0.4 strictly: a line that it does not allow, or a series without its type, is an error. */
export function readMetrics(text: string): ReadMetrics {
  if (!text.endsWith('\n')) throw new Error('The last line has no end.')
  const types = new Map<string, string>()
  const helps = new Set<string>()
  const values = new Map<string, { name: string; labels: Record<string, string>; value: number }>()
  for (const each of text.slice(0, -1).split('\n')) {
    const [, kind, about, rest = ''] = /^# (HELP|TYPE) (\S+) (.+)$/.exec(each) ?? []
    if (kind === 'HELP' && about !== undefined) {
      if (helps.has(about)) throw new Error(`Two helps: ${each}`)
      helps.add(about)
      continue
    }
    if (kind === 'TYPE' && about !== undefined) {
      if (types.has(about) || !['counter', 'gauge', 'histogram'].includes(rest))
        throw new Error(each)
      types.set(about, rest)
      continue
    }
    const [, name, inside = '', value] = line.exec(each) ?? []
    if (name === undefined) throw new Error(`No line of the format: ${each}`)
    const family = types.has(name) ? name : name.replace(/_(bucket|sum|count)$/, '')
    if (!types.has(family) || !helps.has(family)) throw new Error(`No type or help: ${each}`)
    if (values.has(each.slice(0, each.lastIndexOf(' ')))) throw new Error(`Twice: ${each}`)
    const number = Number(value)
    if (Number.isNaN(number)) throw new Error(`No number: ${each}`)
    const labels = readLabels(inside)
    values.set(each.slice(0, each.lastIndexOf(' ')), { name, labels, value: number })
  }
  return {
    series: [...values.keys()],
    value: (name, labels = {}) =>
      [...values.values()].find(
        (one) =>
          one.name === name &&
          Object.entries(labels).every(([key, wanted]) => one.labels[key] === wanted),
      )?.value,
  }
}

function readLabels(inside: string): Record<string, string> {
  const labels: Record<string, string> = {}
  label.lastIndex = 0
  while (label.lastIndex < inside.length) {
    const [, name, value] = label.exec(inside) ?? []
    if (name === undefined || value === undefined) throw new Error(`No labels: ${inside}`)
    labels[name] = value.replace(/\\(.)/g, (_, sign: string) => (sign === 'n' ? '\n' : sign))
  }
  return labels
}
