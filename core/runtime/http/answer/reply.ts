/** An answer that is more than a JSON value with status 200. Made by `text()` and `created()`. */
export class Reply {
  readonly status: number
  readonly type: 'json' | 'text'
  readonly body: unknown
  readonly headers: Readonly<Record<string, string>>

  constructor(
    status: number,
    type: 'json' | 'text',
    body: unknown,
    headers: Record<string, string> = {},
  ) {
    this.status = status
    this.type = type
    this.body = body
    this.headers = headers
  }
}

/** Answers with `text/plain; charset=utf-8`. */
export function text(body: string, status = 200): Reply {
  return new Reply(status, 'text', body)
}

/** Answers 201 with a `Location` and the new thing as JSON. Encode ids in `location` yourself. */
export function created(location: string, body: unknown): Reply {
  // A header takes ASCII only; what is percent-encoded already stays as it is.
  const ascii = location.toWellFormed().replace(/[^!-~]+/g, encodeURIComponent)
  return new Reply(201, 'json', body, { Location: ascii })
}
