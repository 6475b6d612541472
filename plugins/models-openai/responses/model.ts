import { WireModel, type WireModelOptions } from '#core/models'
import { changeOf, isUnsealable } from './changes.ts'
import { EventReader } from './reader.ts'
import { ResponsesRequests } from './requests.ts'

/** A model behind Responses: where it is asked, with which headers, and how the operator set it. */
export type ResponsesOptions = Omit<WireModelOptions, 'wire' | 'framing' | 'origin' | 'can'>

/** A model behind a `/responses` endpoint, which keeps nothing of the conversation. */
export class ResponsesModel extends WireModel {
  /** Opens nothing: the first request connects. */
  constructor(options: ResponsesOptions) {
    const { id, name, url } = options
    const requests = new ResponsesRequests(name)
    super({
      ...options,
      // Chat completions of the same model keep other data, so the wire belongs to the origin.
      origin: `${id} at ${url.host}${url.pathname}`,
      can: { object: true },
      wire: () => ({
        body: (request, changes) => requests.body(request, changes),
        reader: (asked) => new EventReader(asked),
        change: (refusal, _, request) =>
          isUnsealable(refusal) ? requests.leaveThoughts(request) : changeOf(refusal),
      }),
    })
  }
}
