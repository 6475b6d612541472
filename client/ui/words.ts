import { createContext, useContext } from 'react'
import { en } from './languages/en.ts'

/** Everything that the kit itself says. Each language has all of it: a missing one is a type error. */
export interface Words {
  readonly locale: string
  readonly newChat: string
  readonly chats: string
  readonly search: string
  readonly noneFound: string
  readonly untitled: string
  readonly rename: string
  readonly remove: string
  readonly removed: string
  readonly chatGone: string
  readonly undo: string
  readonly more: string
  readonly today: string
  readonly yesterday: string
  readonly week: string
  readonly messages: string
  readonly message: string
  readonly ask: string
  readonly send: string
  readonly stop: string
  readonly attach: string
  readonly model: string
  readonly you: string
  readonly oracle: string
  readonly thinking: string
  readonly thought: string
  readonly stillSending: string
  readonly waitsForNetwork: string
  /** Words that go out once what was said before them is answered. */
  readonly waitsForAnswer: string
  readonly edit: string
  readonly cancel: string
  readonly save: string
  readonly again: string
  readonly copy: string
  readonly copied: string
  readonly wrap: string
  /** A reload will forget drafts and what waits. */
  readonly notKept: string
  /** A reload will ask the wallet again. */
  readonly signInNotKept: string
  readonly showLong: string
  readonly image: string
  readonly askLink: string
  readonly running: string
  readonly waits: string
  readonly done: string
  /** Of a task in a list. */
  readonly undone: string
  readonly failed: string
  readonly stopped: string
  readonly cutOff: string
  readonly cutByLength: string
  readonly cutByFilter: string
  readonly approve: string
  readonly reject: string
  readonly approvalOf: (tool: string) => string
  readonly connectionLost: string
  readonly tryingAgain: string
  /** `time` has its unit. */
  readonly clockFast: (time: string) => string
  readonly clockSlow: (time: string) => string
  /** `seconds` has its unit. */
  readonly tryingAgainIn: (seconds: string) => string
  readonly connected: string
  readonly tryNow: string
  readonly tryAgain: string
  readonly signInAgain: string
  readonly details: string
  readonly toEnd: string
  readonly older: string
  readonly suggestions: string
  /** The way to more suggestions. */
  readonly others: string
  readonly branchOf: (nth: number, of: number) => string
  readonly earlier: string
  readonly later: string
  readonly alreadyDone: (tools: string) => string
  readonly goOn: string
  readonly loading: string
  readonly nothingHere: string
  readonly attachments: string
  readonly tooMany: string
  readonly tooLarge: string
  readonly offline: string
  readonly sendingFile: (name: string) => string
  readonly removeFile: (name: string) => string
  readonly doneOf: (done: number, total?: number) => string
  readonly payment: string
  readonly pay: string
  readonly paying: string
  readonly turns: (count: number) => string
  readonly newLine: string
  readonly editLast: string
  readonly shortcuts: string
  readonly close: string
  readonly good: string
  readonly bad: string
  readonly anotherModel: (model: string, instead: string) => string
  readonly readsLess: string
  readonly answeredBy: (model: string) => string
  /** Above the sources that the oracle had read before it asked for something. */
  readonly readBefore: string
  readonly saveFile: (name: string) => string
  readonly fileGone: (name: string) => string
}

/** The words of the parts below. */
export const WordsContext = createContext<Words>(en)

/** The words that the parts of a chat use. */
export const useWords = (): Words => useContext(WordsContext)
