import type { Model, PricedModel } from '../../plugin.ts'
import { Chain } from './chain.ts'
import type { Models } from './choose.ts'

/** A line of the boot report for each offer: what answers, and what takes over. */
export function offerLines({ all, default: first, small }: Models): string[] {
  const lines = all.map(
    (model) => `model: ${nameOf(model)}${model === first && all.length > 1 ? ' (default)' : ''}`,
  )
  return small ? [...lines, `model of summaries: ${nameOf(small)}`] : lines
}

/** What the models cost that may be asked, each once. */
export function pricesOf({ all, small }: Models): PricedModel[] {
  const asked = small ? [...all, small] : all
  const members = asked.flatMap((model) => (model instanceof Chain ? model.members : [model]))
  const byId = new Map(members.map((model) => [model.id, model.price]))
  return [...byId].map(([id, price]) => ({ id, ...(price && { price }) }))
}

function nameOf(model: Model): string {
  const { id, label } = model
  if (model instanceof Chain) {
    const members = model.members.map((member) => member.id).join(', then ')
    return members === id ? members : `${id}: ${members}`
  }
  if (label === undefined || id.endsWith(label)) return id
  return `${label} (${id})`
}
