import type { ServedApi } from '#core'
import type { Calls } from '../http/calls.ts'
import type { Dialect } from '../json/writer.ts'
import type { Operations } from '../operations/operations.ts'
import { perOperations } from '../operations/per-operations.ts'
import { describeGateway, type GatewayApi } from './document.ts'
import { pageHeaders, pageOf } from './page.ts'

/** The OpenAPI document of one set of operations. */
interface Document {
  /** How often the set of unimplemented methods had changed when the document was made. */
  readonly changes: number
  readonly value: GatewayApi
  readonly api: ServedApi
  /** The document as text, made by the first request for the text. */
  text: string | undefined
}

type Headers = Readonly<Record<string, string>>

/** The documents of the gateway, which are long, and so made again only when something about them has changed. */
export class Documents {
  readonly #calls: Pick<Calls, 'unimplemented' | 'changes'>
  readonly #dialect: Dialect
  readonly #kept = perOperations((): { document?: Document } => ({}))

  constructor(calls: Pick<Calls, 'unimplemented' | 'changes'>, dialect: Dialect) {
    this.#calls = calls
    this.#dialect = dialect
  }

  /** The headers and the text of the document, or of the page that shows it. */
  answerOf(operations: Operations, kind: 'json' | 'page' = 'json'): readonly [Headers, string] {
    const document = this.#of(operations)
    if (kind === 'page') return [pageHeaders, pageOf(document.value)]
    return [{}, (document.text ??= JSON.stringify(document.value))]
  }

  /** What of the document stands in that of the whole server. */
  api(operations: Operations): ServedApi {
    return this.#of(operations).api
  }

  #of(operations: Operations): Document {
    const { unimplemented, changes } = this.#calls
    const kept = this.#kept(operations)
    if (kept.document?.changes === changes) return kept.document
    const value = describeGateway(operations, { dialect: this.#dialect, unimplemented })
    return (kept.document = {
      changes,
      value,
      api: { paths: value.paths, schemas: value.components.schemas },
      text: undefined,
    })
  }
}
