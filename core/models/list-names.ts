import { fieldsIn } from '../runtime/base/fields.ts'
import { askProvider, type Question } from '../runtime/model/transport/ask.ts'

/** How many models of a page are taken at most, and how many pages are read. */
const mostOnPage = 2000
const mostPages = 5

/** Where a list of models is read, and how. */
export interface ModelList extends Pick<Question, 'url' | 'headers' | 'signal'> {
  readonly secret?: string
  readonly variables: Question['asked']['settings']
  /** The entries of a page, by its fields or by the whole of it; anything but a list counts as none. */
  entries(fields: Readonly<Record<string, unknown>>, page: unknown): unknown
  /** The name of an entry; undefined for a model that is of no use here. */
  nameOf(entry: Readonly<Record<string, unknown>>): unknown
  /** What to ask for with the next page; undefined after the last one. */
  next?(
    page: Readonly<Record<string, unknown>>,
  ): readonly [field: string, value: unknown] | undefined
}

/** The names of the models that a key reaches. */
export async function listNames(list: ModelList): Promise<readonly string[]> {
  const { headers, signal, secret, variables: settings } = list
  const url = new URL(list.url)
  const names: string[] = []
  for (let nth = 0; nth < mostPages; nth++) {
    const asked = { model: 'models', secret, settings }
    const page = await askProvider({ url, headers, asked, signal })
    const entries = list.entries(fieldsIn(page), page)
    if (!Array.isArray(entries)) break
    for (const entry of entries.slice(0, mostOnPage)) {
      const name = list.nameOf(fieldsIn(entry))
      if (typeof name === 'string') names.push(name)
    }
    const [field, value] = list.next?.(fieldsIn(page)) ?? []
    if (field === undefined || typeof value !== 'string' || value === '') break
    url.searchParams.set(field, value)
  }
  return names
}
