/** A piece of what a tool returns with `parts`: words, or a picture, a sound or a file with its bytes. */
export type GivenPart =
  | { readonly type: 'text'; readonly text: string }
  | {
      readonly type: 'image' | 'audio' | 'file'
      /** What the tool takes the bytes for. The runtime looks at the bytes, and they have the last word. */
      readonly mediaType: string
      readonly name?: string
      /** The bytes, or their base64. */
      readonly data: Uint8Array | string
      /** False: the model reads it in this turn, from memory, and nothing keeps it. Later turns read that it was there. */
      readonly keep?: boolean
    }

/** What `parts` makes of pieces: a tool returns it as it is. */
export interface GivenParts {
  readonly pieces: readonly GivenPart[]
}
