/** The words in the place of an answer whose run was set aside, because the server died over it twice. */
export const quarantinedNotice =
  'This could not be answered: the server stopped twice while working on it. ' +
  'The message was set aside, and whoever runs this server can look into it.'

/** The words in the place of an answer that servers began several times and never completed. */
export const givenUpNotice =
  'This answer was interrupted: the server stopped several times while it was being written. Please ask again.'
