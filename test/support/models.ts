import { demoModel } from '../../plugins/models-demo/demo-model.ts'

export { call, resultOf } from '../../core/testing/scripted-model.ts'
export { unquote } from './quotation.ts'

/** The demonstration model, without the pace at which it speaks to people. */
export const quickDemo = () => demoModel({ wordsPerSecond: Infinity })
