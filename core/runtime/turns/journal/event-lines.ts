/** An event of a run as it is kept and sent: `data` is one line of JSON. */
export interface RunEvent {
  /** Its number in the run. Numbers rise; they may skip after a takeover. */
  readonly id: number
  readonly event: string
  readonly data: string
}

/** The events of one batch as they stand in the database. */
export interface EventBatch {
  readonly first_seq: number
  readonly last_seq: number
  readonly body: string
}

/** How many characters a row holds before the next row begins, so that a reader who catches up never loads much at once. */
const rowLength = 32 * 1024

/** Packs events into rows: one row costs the database far less than one for every token. */
export function toBatches(events: readonly RunEvent[]): EventBatch[] {
  const batches: EventBatch[] = []
  let first: RunEvent | undefined
  let body = ''
  for (const [i, event] of events.entries()) {
    first ??= event
    body += `${body === '' ? '' : '\n'}${event.id}\t${event.event}\t${event.data}`
    if (body.length < rowLength && i < events.length - 1) continue
    batches.push({ first_seq: first.id, last_seq: event.id, body })
    first = undefined
    body = ''
  }
  return batches
}

/** The events of a row again. */
export function fromBatch({ body }: Pick<EventBatch, 'body'>): RunEvent[] {
  return body.split('\n').map((line) => {
    const name = line.indexOf('\t') + 1
    const data = line.indexOf('\t', name) + 1
    return {
      id: Number(line.slice(0, name - 1)),
      event: line.slice(name, data - 1),
      data: line.slice(data),
    }
  })
}
