import { RuntimeError } from '../../errors.ts'

/** One offer of MODEL: what a turn can ask for. */
export interface Offer {
  /** The alias, or the first name. */
  readonly id: string
  /** The names of the models: where the first cannot answer, the next takes over. */
  readonly names: readonly string[]
}

const mostOffers = 50
const mostNames = 5
/** How MODEL is written, for hints. */
const grammar =
  'Write MODEL as names with commas between them: [alias=]provider/name[|provider/name…].'

/** Reads `[alias=]name[|name…]`, with commas between offers. The first offer is the default. */
export function readOffers(value: string): {
  readonly offers: readonly Offer[]
  readonly faults: readonly RuntimeError[]
} {
  const texts = value.split(',').flatMap((text) => text.trim() || [])
  if (texts.length === 0) return { offers: [], faults: [fault('MODEL is empty.')] }
  if (texts.length > mostOffers)
    return {
      offers: [],
      faults: [fault(`MODEL has ${texts.length} offers, and may have ${mostOffers}.`)],
    }
  const faults: RuntimeError[] = []
  const ids = new Set<string>()
  const offers = texts.flatMap((text) => {
    const offer = readOffer(text)
    if (offer instanceof RuntimeError) faults.push(offer)
    else if (ids.has(offer.id)) faults.push(twice(offer.id))
    else {
      ids.add(offer.id)
      return [offer]
    }
    return []
  })
  return { offers, faults }
}

function readOffer(text: string): Offer | RuntimeError {
  const [, alias, rest = ''] = /^(?:([^=|/]*)=)?(.*)$/s.exec(text) ?? []
  const names = rest.split('|').map((name) => name.trim())
  if (alias !== undefined && !/^[\w.-]{1,60}$/.test(alias.trim()))
    return fault(
      `MODEL has the alias "${alias.trim()}", which cannot be used.`,
      'An alias has up to 60 letters, digits, dots and hyphens.',
    )
  if (names.some((name) => !name || /\s/.test(name) || name.length > 200))
    return fault(`MODEL has "${text}", which is no offer.`)
  if (names.length > mostNames)
    return fault(
      `MODEL has "${text}", a chain of ${names.length} models; it may have ${mostNames}.`,
    )
  const again = names.find((name, at) => names.indexOf(name) !== at)
  if (again !== undefined) return fault(`MODEL has "${text}", which names "${again}" twice.`)
  return { id: alias?.trim() ?? names[0] ?? '', names }
}

function twice(id: string): RuntimeError {
  return fault(`MODEL offers "${id}" twice.`, 'Leave one out, or give it an alias: alias=name.')
}

function fault(message: string, hint = grammar): RuntimeError {
  return new RuntimeError('ENV_INVALID', message, { hint })
}
