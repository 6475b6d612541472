import type { KeyboardEvent } from 'react'

/** Whether an input method takes the key: Safari says so by the code 229 alone for the key that ends a word. */
export const isComposing = ({ nativeEvent }: KeyboardEvent): boolean =>
  nativeEvent.isComposing || nativeEvent.keyCode === 229

/** Whether a key sends what is written: Enter, but where a finger types it begins a line, and a button sends. */
export const isSendKey = (event: KeyboardEvent): boolean =>
  event.key === 'Enter' && !event.shiftKey && !isComposing(event) && !isCoarse()

/** Whether a finger points here, so that a field with the focus shows the keys of the screen. */
export const isCoarse = (): boolean => !!globalThis.matchMedia?.('(pointer: coarse)').matches
